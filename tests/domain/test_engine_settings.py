"""What `[models.engine]` may say of the embedded engine, and how it is told when it says something else."""

from pathlib import Path
from typing import Any

import pytest

from hasten.models import model_table
from hasten.settings import SettingsError
from hasten.worker.engines.llama import LlamaEngine


def _row(**engine: Any) -> dict[str, Any]:
    return {"models": [{"name": "m", "engine": {"kind": "llama", "path": "m.gguf", **engine}}]}


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"slots": 0}, r">= 1.*engine.slots"),
        ({"threads": 0}, r">= 1.*engine.threads"),
        ({"queue": -1}, r">= 0.*engine.queue"),
        ({"llama_batch": 0}, r">= 1.*engine.llama_batch"),
        ({"llama_batch": 10**9}, r"<= 65536.*engine.llama_batch"),
        ({"llama_draft_tokens": 0}, r">= 1.*engine.llama_draft_tokens"),
        ({"llama_prefill_threads": -2}, r">= 0.*engine.llama_prefill_threads"),
        ({"llama_speculative": "medusa"}, r"enum value 'medusa'.*engine.llama_speculative"),
        ({"llama_quantization": "q4_k_m"}, r"enum value 'q4_k_m'.*engine.llama_quantization"),
        ({"llama_cache_type": "q5_0"}, r"enum value 'q5_0'.*engine.llama_cache_type"),
        ({"llama_prefix_cache": "yes"}, r"bool.*engine.llama_prefix_cache"),
        ({"llama_prefixcache": True}, r"unknown field `llama_prefixcache`"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(engine: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        model_table(_row(**engine))


@pytest.mark.parametrize("engine", [{"llama_speculative": "draft"}, {"llama_draft": "small.gguf"}])
def test_a_draft_model_is_named_and_wanted_or_neither(engine: dict[str, Any]) -> None:
    (model,) = model_table(_row(**engine))
    with pytest.raises(SettingsError, match=r"llama_speculative = .draft. and llama_draft"):
        LlamaEngine.from_config(model, Path("nowhere"))
