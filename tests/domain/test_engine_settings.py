"""What `[models.engine]` may say of the embedded engine, and how it is told when it says something else."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from hasten.models import model_table
from hasten.settings import SettingsError
from hasten.worker.engines.llama import LlamaEngine


def _row(**engine: Any) -> dict[str, Any]:
    return {"models": [{"name": "m", "engine": {"kind": "llama", "path": "m.gguf", **engine}}]}


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("slots", 0, ">= 1"),
        ("threads", 0, ">= 1"),
        ("queue", -1, ">= 0"),
        ("llama_batch", 0, ">= 1"),
        ("llama_batch", 10**9, "<= 65536"),
        ("llama_draft_tokens", 0, ">= 1"),
        ("llama_prefill_threads", -2, ">= 0"),
        ("llama_speculative", "medusa", "medusa"),
        ("llama_quantization", "q4_k_m", "q4_k_m"),
        ("llama_cache_type", "q5_0", "q5_0"),
        ("llama_prefix_cache", "yes", "bool"),
        ("llama_prefixcache", True, "no field"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(field: str, value: Any, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        model_table(_row(**{field: value}))
    assert field in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("engine", [{"llama_speculative": "draft"}, {"llama_draft": "small.gguf"}])
def test_a_draft_model_is_named_and_wanted_or_neither(engine: dict[str, Any]) -> None:
    (model,) = model_table(_row(**engine))
    with pytest.raises(SettingsError, match=r"llama_speculative = .draft. and llama_draft"):
        LlamaEngine.from_config(model, Path("nowhere"))


def test_the_example_of_a_model_in_the_shipped_config_is_one() -> None:
    shipped = (Path(__file__).parents[2] / "deploy" / "hasten.toml").read_text()
    example = shipped[shipped.index("# [[models]]") :].replace("# ", "", 1).replace("\n# ", "\n")
    (model,) = model_table(tomllib.loads(example))
    assert (model.name, model.engine.llama_quantization) == ("house-7b", "q8_0")
