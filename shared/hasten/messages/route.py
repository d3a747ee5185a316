"""Which model, and which worker of it."""

from typing import Any

from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic


class Route(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for a model and a worker.

    `model` is the public name asked for (`auto` leaves the choice). `needs` are capabilities (tools, json, vision,
    logprobs …) the model must have. `prompt_tokens` is an estimate before compression and `max_tokens` what may be
    generated. `latency_budget_ms` is the time left for the first token. `exclude` names workers that have just failed.
    `request_id` is that of the request: what it failed at before, under this id, is avoided where there is a choice.
    `prefix` are hashes of ever longer beginnings of the prompt, shortest first, with the tokens of each: workers keep
    what they have computed, and prompts of a tenant that begin alike have the same hashes.
    `spare` asks for a worker with a free slot, for work that is not worth waiting for or making others wait. `above`
    names a model whose answer was not good enough: only models of more quality are wanted. What is not `counted` will
    not be sent there: somebody only wants to know.
    """

    text: str
    vector: bytes | None = None
    model: str = "auto"
    needs: list[str] = []
    prompt_tokens: int = 0
    max_tokens: int | None = None
    turns: int = 1
    latency_budget_ms: float | None = None
    exclude: list[str] = []
    request_id: str = ""
    prefix: dict[str, int] = {}
    spare: bool = False
    above: str = ""
    counted: bool = True


class Routed(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The choice, with what the next stages need to know of the model.

    `token_budget` is the prompt tokens to aim for, `shares` what the parts of the prompt may take of it (see Compress)
    and `context_window` the hard limit on prompt plus answer. `tokenizer` names the model's tokenizer (see the model
    table). `defaults` are sampling options for what the request left open. `continues` says that the engine can go on
    from a given beginning of an answer. `p95_ttft_ms` is the P95 of the model's first-token times, 0 while too few were
    measured. `over_budget` says that the first token is likely to come after the latency budget, because nothing that
    could answer is faster. `cascade` says that a small model was preferred for want of a known difficulty, so that its
    answer may have to be escalated.
    """

    model: str
    slug: str
    worker: str
    reason: str
    confidence: float = 1.0
    difficulty: float = 0.0
    expected_ttft_ms: float = 0.0
    p95_ttft_ms: float = 0.0
    over_budget: bool = False
    context_window: int = 4096
    token_budget: int = 1200
    max_tokens: int = 512
    tokenizer: str = ""
    shares: dict[str, float] = {}
    continues: bool = False
    cascade: bool = False
    defaults: dict[str, Any] = {}
    features: dict[str, float] = {}


ROUTE = Topic(
    name="route",
    template="hasten.v1.route.{tenant}",
    request=Route,
    reply=Routed | Failure,
    queue="router",
    summary="Choose the model and the worker for a request.",
)


class Models(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for the model table with its live figures."""


class WorkerInfo(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A worker by its own last word: whether it takes requests, its slots, the requests in them and in line
    (`in_flight`), those in line alone (`waiting`), and how long the oldest without a token has waited. For another
    `cooling_ms` it gets no request, as its last ones have failed or its engine was asked for a pause; `breaker` is
    closed, open or half_open. `sent` counts the requests that all routers have sent there. `token_ms` and `answer_ms`
    are as in Status."""

    name: str
    ready: bool = True
    slots: int = 1
    in_flight: int = 0
    waiting: int = 0
    oldest_ms: float = 0.0
    cooling_ms: float = 0.0
    breaker: str = "closed"
    sent: int = 0
    token_ms: float = 0.0
    answer_ms: float = 0.0


class ModelInfo(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A model that the tenant may ask for, with what was measured of it lately.

    First-token times and `error_rate`, the share of attempts that were faults, are those of the last minutes, the
    newest weighing most; `samples` is how many first tokens there were and `age_s` how old the newest attempt is.
    `breaker` is that of all the workers that are ready (closed, open or half_open), or else `partly open`. `workers`
    counts these; `each` lists every worker.
    """

    name: str
    slug: str
    aliases: list[str] = []
    capabilities: list[str] = []
    context_window: int = 0
    quality: float = 0.0
    cost_per_1k_prompt: float = 0.0
    cost_per_1k_completion: float = 0.0
    workers: int = 0
    p50_ttft_ms: float | None = None
    p95_ttft_ms: float | None = None
    samples: int = 0
    error_rate: float | None = None
    age_s: float | None = None
    breaker: str = "closed"
    each: list[WorkerInfo] = []


class ModelList(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Every model of the table; `auto` is always understood besides.

    Routers with the same `table` go by the same rows. `problem` says why the last edit of the config was not taken.
    """

    models: list[ModelInfo] = []
    table: str = ""
    problem: str = ""


MODELS = Topic(
    name="models",
    template="hasten.v1.models.{tenant}",
    request=Models,
    reply=ModelList | Failure,
    queue="router",
    summary="List the models with their live figures.",
)
TOPICS = (ROUTE, MODELS)
