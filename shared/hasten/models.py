"""The model table: what the router may choose from, what a worker starts and how a compressor counts."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, overload

import msgspec

from hasten.settings import SettingsError, plain
from hasten.topics import checked

Count = Annotated[int, msgspec.Meta(ge=1, le=65536)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0, le=65536)]


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker runs a model. `kind` is llama, vllm, openai or sim (or a third party's); what begins with another
    kind is not read, so that changing that one line changes the engine.

    All: `slots` answers at once, `queue` more requests in line. `cache_tokens` is how many tokens of earlier prompts an
    engine keeps computed (0: as many as fill its slots): the simulator keeps so many, and the router expects it of the
    others.

    llama: `path` is a GGUF file in the data folder's models/. It computes with `threads`, prompts with
    `llama_prefill_threads` (0: as many), in steps of `llama_batch` tokens; each of the `slots` has the model's whole
    `context_window`. `llama_prefix_cache` keeps what a tenant's prompts have in common, `llama_continuous_batching`
    computes prompts beside answers instead of between them, `llama_quantization` makes the file in this precision once
    and runs that (empty: the file as it is) and `llama_cache_type` is the precision of keys and values.
    `llama_speculative` guesses tokens ahead, `ngram` from what the request says already, `draft` with the small model
    `llama_draft` (a GGUF file with the same vocabulary), at most `llama_draft_tokens` at once. docs/engines.md has the
    figures.

    vllm: `path` is a folder with a checkpoint (or its name on a hub), `slots` the sequences in a batch. `vllm_dtype` is
    what it computes in, `vllm_eager` does without compiled graphs, `vllm_kv_gib` is the memory for keys and values (0
    leaves it to vLLM), `vllm_prefix_cache` keeps prompts computed, by tenant, `vllm_ngram_tokens` is how many tokens to
    guess from the prompt at each step (0 for none), `vllm_tool_parser` the name of vLLM's parser for this model's tool
    calls, `vllm_options` any other argument of its AsyncEngineArgs.

    openai: `url`, `upstream_model` (empty: the name of the row), `api_key_env` (the variable that holds the key),
    `ca_file` (PEM: who vouches for a server with a certificate of the house), and `continues` for a server that goes on
    from a last turn of the assistant's. A connection may take `connect_timeout_s`; `first_token_timeout_s` and
    `between_tokens_timeout_s` end what hangs, with vllm too.

    sim: a first token takes `sim_network_ms` and the prompt at `sim_prefill_per_s` tokens per second, less what
    `sim_prefix_cache` finds; an answer is `sim_answer` (empty: words of the question) at `sim_decode_per_s`. First
    tokens vary by a log-normal factor of sigma `sim_spread`; a share `sim_slow_share` of them comes later by
    `sim_slow_ms` times a Pareto draw of shape `sim_slow_shape`. `sim_seed` makes the draws the same each time (0: not).
    `sim_logprob` is how probable each of its tokens is to it, as a natural logarithm.
    """

    kind: str = "llama"
    path: str = ""
    slots: Count = 4
    queue: CountOrNone = 64
    threads: Count = 1
    url: str = ""
    upstream_model: str = ""
    api_key_env: str = ""
    ca_file: str = ""
    continues: bool = False
    cache_tokens: int = 0
    connect_timeout_s: float = 5.0
    first_token_timeout_s: float = 60.0
    between_tokens_timeout_s: float = 30.0
    llama_prefix_cache: bool = True
    llama_continuous_batching: bool = True
    llama_batch: Count = 32
    llama_prefill_threads: CountOrNone = 0
    llama_quantization: Literal["", "f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"] = ""
    llama_cache_type: Literal["f16", "q8_0", "q4_0"] = "f16"
    llama_speculative: Literal["off", "ngram", "draft"] = "off"
    llama_draft: str = ""
    llama_draft_tokens: Count = 16
    sim_network_ms: float = 0.0
    sim_prefill_per_s: float = 2000.0
    sim_decode_per_s: float = 100.0
    sim_prefix_cache: bool = True
    sim_answer: str = ""
    sim_spread: float = 0.0
    sim_slow_share: float = 0.0
    sim_slow_ms: float = 1000.0
    sim_slow_shape: float = 1.5
    sim_seed: int = 0
    sim_logprob: float = 0.0
    vllm_dtype: str = "auto"
    vllm_eager: bool = False
    vllm_kv_gib: float = 0.0
    vllm_prefix_cache: bool = True
    vllm_ngram_tokens: int = 0
    vllm_tool_parser: str = ""
    vllm_options: dict[str, Any] = {}


Part = Literal["examples", "history", "passages", "recall", "floor"]
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table.

    `name` is the public name and `slug` its subject token (made from the name when absent). `capabilities`: tools,
    json, vision, and logprobs, which the orchestrator judges drafts by as well. `quality` is 0 to 1, costs
    are dollars per 1,000 tokens, `ttft_prior_ms` counts until there are measurements. `token_budget` is the prompt size
    to aim for, and `shares` replaces what the compressor's settings give to the parts of a prompt (`history = 0.5`).
    `tokenizer` names a folder in the data folder's models/ with a tokenizer.json; without one tokens are estimated from
    bytes, on the safe side. `defaults` are sampling options for what a request leaves open.
    """

    name: str
    slug: str = ""
    aliases: list[str] = []
    engine: EngineConfig = EngineConfig()
    capabilities: list[str] = []
    quality: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    cost_per_1k_prompt: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    cost_per_1k_completion: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    context_window: Annotated[int, msgspec.Meta(ge=1)] = 4096
    token_budget: Annotated[int, msgspec.Meta(ge=1)] = 1200
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] = 512
    ttft_prior_ms: Annotated[float, msgspec.Meta(gt=0)] = 500.0
    shares: dict[Part, Annotated[float, msgspec.Meta(ge=0, le=1)]] = {}
    tokenizer: str = ""
    defaults: dict[str, Any] = {}

    @property
    def cache_tokens(self) -> int:
        """How many tokens of earlier prompts a worker of it is expected to keep computed."""
        engine = self.engine
        switches = {
            "llama": engine.llama_prefix_cache,
            "vllm": engine.vllm_prefix_cache,
            "sim": engine.sim_prefix_cache,
        }
        if not switches.get(engine.kind, True):
            return 0
        return engine.cache_tokens or engine.slots * self.context_window


AUTO = "auto"
"""The name that leaves the choice of the model to the router."""


def slug_of(name: str) -> str:
    """The subject token for a public model name: lower case, everything else a dash."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:64]


SMALL = Model(
    name="smollm2-135m-q8",
    aliases=["fast"],
    engine=EngineConfig(kind="llama", path="smollm2-135m-instruct-q8_0.gguf"),
    capabilities=["json", "logprobs"],
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
    capabilities=["json", "logprobs"],
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


class RowError(SettingsError):
    """What is wrong with one row: `row` counts from 0, `field` may be empty."""

    def __init__(self, problem: str, row: int, field: str = "") -> None:
        super().__init__(f"[[models]], row {row + 1}: {problem}")
        self.row, self.field = row, field


def model_table(config: Mapping[str, Any]) -> list[Model]:
    """The `[[models]]` of the config, or `DEFAULTS`; raises SettingsError for a bad row or a name used twice."""
    rows = config.get("models")
    if rows is None:
        return [_with_slug(model) for model in DEFAULTS]
    if not isinstance(rows, list) or not rows:
        raise SettingsError("[[models]] is empty: give at least one model, or leave the table out")
    table = [_row(row, index) for index, row in enumerate(rows)]
    taken = {AUTO}
    for index, model in enumerate(table):
        names = [model.name, *([] if model.slug == model.name else [model.slug]), *model.aliases]
        for name in names:
            if name in taken:
                raise RowError(_doubled(name), index, "aliases" if name in model.aliases else "name")
            taken.add(name)
    return table


def _doubled(name: str) -> str:
    return f"{name} is what leaves the choice to the router" if name == AUTO else f"{name} is used twice"


def _absurd(row: Any) -> str:
    """The name of the first number that cannot be reckoned with: an infinity, or one beyond what floats hold."""
    if not isinstance(row, dict):
        return ""
    for name, value in row.items():
        if isinstance(value, int | float) and abs(value) > 2**53:
            return str(name)
        if isinstance(value, dict) and (inside := _absurd(value)):
            return f"{name}.{inside}"
    return ""


def _row(row: Any, index: int) -> Model:
    if name := _absurd(row):
        raise RowError(f"{name} must be a number of at most {2**53}", index, name)
    tokenizer = row.get("tokenizer") if isinstance(row, dict) else None
    if isinstance(tokenizer, str) and tokenizer and not _FOLDER.fullmatch(tokenizer):
        raise RowError("a tokenizer is the name of a folder in models/, with tokenizer.json in it", index, "tokenizer")
    try:
        return _with_slug(msgspec.convert(row, Model))
    except msgspec.ValidationError as error:
        problem = plain(error)
        unknown = re.search(r"there is no field `(\w+)`", problem)
        field = unknown[1] if unknown else problem.partition(":")[0] if " - at" in str(error) else ""
        raise RowError(problem, index, field) from None
    except ValueError as error:
        raise RowError(str(error), index, "slug" if isinstance(row, dict) and "slug" in row else "name") from None


def _with_slug(model: Model) -> Model:
    return msgspec.structs.replace(model, slug=checked("model slug", model.slug or slug_of(model.name)))


RETIRED = 100
"""How many removed rows a table remembers."""


class ModelTable(Sequence[Model]):
    """The rows that a process goes by. They are replaced as a whole while services run: whoever holds the table reads
    the newest. `retired` are rows that were removed meanwhile, which some answer may still be made with; `problem` says
    why the last edit of the config was not taken, and is empty when it was."""

    def __init__(self, rows: Sequence[Model]) -> None:
        self.rows = tuple(rows)
        self.retired: tuple[Model, ...] = ()
        self.problem = ""

    def replace(self, rows: Sequence[Model]) -> None:
        """Puts other rows in the place of these."""
        kept = {model.slug for model in rows}
        gone = {model.slug: model for model in (*self.retired, *self.rows) if model.slug not in kept}
        self.rows, self.retired, self.problem = tuple(rows), tuple(gone.values())[-RETIRED:], ""

    def row(self, slug: str) -> Model | None:
        """The row of a slug."""
        return next((model for model in self.rows if model.slug == slug), None)

    @property
    def digest(self) -> str:
        """What tells whether two processes go by the same table."""
        return hashlib.sha256(msgspec.json.encode(self.rows)).hexdigest()[:12]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Model: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Model]: ...
    def __getitem__(self, index: int | slice) -> Model | Sequence[Model]:
        return self.rows[index]
