"""The conversation of an orchestrator with one worker, and what workers announce of themselves."""

from typing import Any, Literal

from hasten.messages.chat import ChatReply, Turn
from hasten.topics import Body, Topic


class Generate(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks a worker to generate; it answers with the same stream as a chat.

    `continues` is the beginning of the answer that has already been shown: the engine goes on from there, and a
    worker whose engine cannot says `unsupported`. `confidence_after` asks how probable the tokens were, once there are
    so many and again at the end; 0 does not ask. The tenant is in the Hasten-Tenant header.
    """

    messages: list[Turn]
    max_tokens: int = 512
    temperature: float | None = None
    top_p: float | None = None
    stop: list[str] = []
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    continues: str = ""
    priority: int = 0
    confidence_after: int = 0
    extra: dict[str, Any] = {}


SAMPLING_FIELDS = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")
"""The fields that say how tokens are drawn; a ChatRequest has the same."""
CONFIDENCE = "confidence"
"""The kind of the note whose data is a Confidence."""


class Confidence(Body, frozen=True, kw_only=True, omit_defaults=True):
    """How probable an answer's tokens were to its model: natural logarithms, the mean and the least of `tokens`."""

    tokens: int
    mean_logprob: float
    min_logprob: float


GENERATE = Topic(
    name="generate",
    template="hasten.v1.generate.{slug}.{worker}",
    request=Generate,
    reply=ChatReply,
    kind="stream",
    ping_s=0.25,
    summary="Generate on the worker that the router chose.",
)


class Status(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's word about itself, several times a second and at once when its state changes.

    `seq` counts from 1 since `started_ms`; a worker that is not heard of for 2 s is gone. `active` requests are in
    slots and `queued` wait for one; `queued_tokens` is the prompt work waiting; `oldest_ms` is how long the oldest
    request without a token, in line or in a slot, has been there, and `late_ms` how much longer than its prompt
    explains one has been in a slot without a token. `loop_lag_ms` is the worst of late. `token_ms` is the time to the
    first token per prompt token that had to be computed and `answer_ms` how long a slot is held after it, both means of
    late and 0 until measured; `cache_tokens` is how many tokens of earlier prompts it keeps computed. `pause_ms` is how
    long whoever its engine asks wants to be left alone.
    """

    seq: int
    started_ms: int
    state: Literal["starting", "ready", "draining", "down"]
    engine: str
    model: str
    slots: int = 1
    active: int = 0
    queued: int = 0
    queue_limit: int = 0
    queued_tokens: int = 0
    oldest_ms: float = 0.0
    continues: bool = False
    capabilities: list[str] = []
    context_window: int = 0
    loop_lag_ms: float = 0.0
    late_ms: float = 0.0
    cache_tokens: int = 0
    token_ms: float = 0.0
    answer_ms: float = 0.0
    pause_ms: float = 0.0


STATUS = Topic(
    name="status",
    template="hasten.v1.status.{slug}.{worker}",
    request=Status,
    kind="event",
    summary="What a worker says of itself.",
)
TOPICS = (GENERATE, STATUS)
