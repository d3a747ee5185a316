"""The model table: what the router may choose from, what a worker starts and how a compressor counts."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hasten.settings import SettingsError
from hasten.topics import checked


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker runs a model. `kind` is llama, vllm, openai or sim (or a third party's).

    llama: `path` is a GGUF file in the data folder's models/. openai: `url`, `upstream_model`, `api_key_env` (the
    variable that holds the key), `ca_file` (PEM: who vouches for a server with a certificate of the house). sim: the
    `sim_*` fields (times in ms, rates in tokens per second).

    vllm: `path` is a folder with a checkpoint (or its name on a hub), `slots` the sequences in a batch. `vllm_dtype` is
    what it computes in, `vllm_eager` does without compiled graphs, `vllm_kv_gib` is the memory for keys and values (0
    leaves it to vLLM), `vllm_ngram_tokens` how many tokens to guess from the prompt at each step (0 for none),
    `vllm_tool_parser` the name of vLLM's parser for this model's tool calls, `vllm_options` any other argument of its
    AsyncEngineArgs.
    """

    kind: str = "llama"
    path: str = ""
    slots: int = 4
    queue: int = 64
    threads: int = 1
    url: str = ""
    upstream_model: str = ""
    api_key_env: str = ""
    ca_file: str = ""
    continues: bool = False
    connect_timeout_s: float = 5.0
    first_token_timeout_s: float = 60.0
    between_tokens_timeout_s: float = 30.0
    sim_network_ms: float = 0.0
    sim_prefill_per_s: float = 2000.0
    sim_decode_per_s: float = 100.0
    sim_prefix_cache: bool = True
    sim_answer: str = ""
    vllm_dtype: str = "auto"
    vllm_eager: bool = False
    vllm_kv_gib: float = 0.0
    vllm_prefix_cache: bool = True
    vllm_ngram_tokens: int = 0
    vllm_tool_parser: str = ""
    vllm_options: dict[str, Any] = {}


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table.

    `name` is the public name and `slug` its subject token (made from the name when absent). `capabilities`: tools,
    json, vision, logprobs, n. `quality` is 0 to 1, costs are dollars per 1,000 tokens, `ttft_prior_ms` counts until
    there are measurements. `token_budget` is the prompt size to aim for. `tokenizer` names a folder in the data
    folder's models/ with a tokenizer.json; without one tokens are estimated from bytes, on the safe side.
    `defaults` are sampling options for what a request leaves open.
    """

    name: str
    slug: str = ""
    aliases: list[str] = []
    engine: EngineConfig = EngineConfig()
    capabilities: list[str] = []
    quality: float = 0.5
    cost_per_1k_prompt: float = 0.0
    cost_per_1k_completion: float = 0.0
    context_window: int = 4096
    token_budget: int = 1200
    max_tokens: int = 512
    ttft_prior_ms: float = 500.0
    tokenizer: str = ""
    defaults: dict[str, Any] = {}


def slug_of(name: str) -> str:
    """The subject token for a public model name: lower case, everything else a dash."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:64]


SMALL = Model(
    name="smollm2-135m-q8",
    aliases=["fast"],
    engine=EngineConfig(kind="llama", path="smollm2-135m-instruct-q8_0.gguf"),
    capabilities=["json"],
    quality=0.4,
    cost_per_1k_prompt=0.00002,
    cost_per_1k_completion=0.00008,
    token_budget=130,
    max_tokens=160,
    ttft_prior_ms=320.0,
    tokenizer="smollm2",
    defaults={"temperature": 0.0},
)
LARGE = Model(
    name="smollm2-135m-f16",
    aliases=["best"],
    engine=EngineConfig(kind="llama", path="smollm2-135m-instruct-f16.gguf", slots=2),
    capabilities=["json"],
    quality=0.5,
    cost_per_1k_prompt=0.0002,
    cost_per_1k_completion=0.0008,
    token_budget=130,
    max_tokens=160,
    ttft_prior_ms=630.0,
    tokenizer="smollm2",
    defaults={"temperature": 0.0},
)
DEFAULTS = (SMALL, LARGE)
"""The embedded table: one small model in two precisions, which are real tiers of speed and plumbing, not of wisdom."""


def model_table(config: Mapping[str, Any]) -> list[Model]:
    """The `[[models]]` of the config, or `DEFAULTS`; raises SettingsError for a bad row or a slug used twice."""
    rows = config.get("models")
    if rows is None:
        return [_with_slug(model) for model in DEFAULTS]
    try:
        table = [_with_slug(model) for model in msgspec.convert(rows, list[Model])]
    except (msgspec.ValidationError, ValueError) as error:
        raise SettingsError(f"[[models]]: {error}") from None
    names = [name for model in table for name in {model.name, model.slug, *model.aliases}]
    if not table:
        raise SettingsError("[[models]] is empty: give at least one model, or leave the table out")
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(f"[[models]]: {', '.join(doubled)} is used twice")
    return table


def _with_slug(model: Model) -> Model:
    return msgspec.structs.replace(model, slug=checked("model slug", model.slug or slug_of(model.name)))
