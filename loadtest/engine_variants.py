"""The settings of engines that docs/engines.md compares: by engine, a name for each variant and what it sets."""

from pathlib import Path
from typing import Any

from hasten.models import LARGE

Settings = dict[str, Any]
Variants = list[tuple[str, Settings]]

PREFIX: dict[str, Variants] = {
    "llama": [("on", {}), ("off", {"llama_prefix_cache": False})],
    "vllm": [("on", {}), ("off", {"vllm_prefix_cache": False})],
}
SPECULATIVE: dict[str, Variants] = {
    "llama": [("off", {}), ("ngram", {"llama_speculative": "ngram"})],
    "vllm": [("off", {}), ("ngram", {"vllm_ngram_tokens": 8})],
}
DRAFT: Variants = [
    ("f16, off", {"path": LARGE.engine.path}),
    (
        "f16, draft",
        {
            "path": LARGE.engine.path,
            "llama_speculative": "draft",
            "llama_draft": f"{Path(LARGE.engine.path).stem}.q4_0.gguf",
            "llama_draft_tokens": 6,
        },
    ),
]
"""The embedded weights guessed ahead by themselves in less precision: the only pair of one vocabulary that is here."""
QUANTIZATION: dict[str, Variants] = {
    "llama": [(kind, {"path": LARGE.engine.path, "llama_quantization": kind}) for kind in ("", "q8_0", "q4_0")],
}
BATCH: dict[str, Variants] = {
    "llama": [(str(batch), {"llama_batch": batch}) for batch in (16, 32, 64, 128, 512)],
    "vllm": [(str(batch), {"vllm_options": {"max_num_batched_tokens": batch}}) for batch in (128, 512, 2048)],
}
CONTEXT: dict[str, Variants] = {
    "llama": [
        ("1024", {"window": 1024, "slots": 4}),
        ("4096", {"window": 4096, "slots": 4}),
        ("8192", {"window": 8192, "slots": 4}),
        ("8192, q8_0", {"window": 8192, "slots": 4, "llama_cache_type": "q8_0"}),
    ],
}
