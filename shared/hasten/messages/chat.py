"""The conversation of a user with hasten: one ChatRequest, then a stream that ends with exactly one Done or Failure."""

from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from hasten.messages import form
from hasten.messages.failure import Failed, Failure, without_value
from hasten.topics import Body, Reply, Topic

Role = Literal["system", "developer", "user", "assistant", "tool"]
Scalar = str | int | float | bool
SYSTEM_ROLES = ("system", "developer")
"""Whose turns are the operator's instructions: two names for one role."""


class Turn(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation, in OpenAI's form. `content` is text or a list of content parts.

    `extra` holds the fields we do not know: they are part of the fingerprint and go no further.
    """

    role: Role
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    extra: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The text of the turn: its string content, or its text parts joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        parts = (part.get("text") for part in self.content or [] if part.get("type") in form.TEXT_PARTS)
        return "\n".join(part for part in parts if isinstance(part, str))


class Example(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A few-shot candidate: what a user might ask and the answer that is wanted."""

    user: str
    assistant: str


class CachePolicy(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What this request allows the cache to do. An absent field means the operator's default; 0 means 0.

    `mode`: auto (exact, then by meaning), exact, off (neither read nor stored), refresh (not read, stored anew).
    `tags` are added to the answer's dependencies. `max_age_s` refuses older entries and shortens the stored TTL;
    `ttl_s` is how long the answer may be kept, the operator's limit at most and 0 not at all; `store` false keeps
    nothing. `max_distance` refuses semantic hits with a cosine distance above it. `scope` user keeps the entry to
    `user`.
    """

    mode: Literal["auto", "exact", "off", "refresh"] = "auto"
    tags: list[str] = []
    max_age_s: float | None = None
    ttl_s: float | None = None
    max_distance: float | None = None
    scope: Literal["tenant", "user"] = "tenant"
    store: bool = True


class ChatRequest(Body, frozen=True, kw_only=True, omit_defaults=True):
    """OpenAI's chat body plus what hasten adds (knowledge, filter, examples, cache, deadline_ms, priority, explain).

    `knowledge` names the collections to retrieve from, none by default; `filter` is matched against the metadata of
    their documents (a list means any of). Unknown top-level fields are kept in `extra` and go on to the engine.
    Decode with `parse_chat`, which fills `extra` and maps aliases.
    """

    messages: list[Turn]
    model: str = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: int = 1
    stop: str | list[str] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    knowledge: list[str] = []
    filter: dict[str, Scalar | list[Scalar]] = {}
    examples: list[Example] = []
    cache: CachePolicy = CachePolicy()
    user: str | None = None
    deadline_ms: int | None = None
    priority: int = 0
    explain: bool = False
    extra: dict[str, Any] = {}


_KNOWN = frozenset(ChatRequest.__struct_fields__) - {"extra"}
_KNOWN_OF_A_TURN = frozenset(Turn.__struct_fields__) - {"extra"}
_TRANSPORT = frozenset({"stream", "stream_options"})
"""Fields that say how the answer travels, not what it is."""
_CHOICES = {
    f"cache.{name}": get_args(hint) for name, hint in get_type_hints(CachePolicy).items() if get_origin(hint) is Literal
}
"""The fields that are one of a few words; msgspec's error does not say which."""


def _split(plain: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    kept = {name: value for name, value in plain.items() if name in known and value is not None}
    extra = {name: value for name, value in plain.items() if name not in known and name not in _TRANSPORT}
    return {**kept, "extra": extra} if extra else kept


def parse_chat(raw: bytes | dict[str, Any]) -> ChatRequest:
    """Decodes a chat body, from JSON or an object; raises Failed(bad_request) that names the offending field.

    Unknown fields go to `extra` (of the request or of the turn), a null of a known one counts as absent, and
    `max_completion_tokens` takes precedence over `max_tokens`. What OpenAI's API has and nobody here can answer is
    Failed(unsupported). An unknown field of `cache` is refused: a slip in `scope` would show one user's answer to the
    others.
    """
    try:
        plain = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Failed("bad_request", "the body is not valid JSON") from None
    if not isinstance(plain, dict):
        raise Failed("bad_request", "the body must be a JSON object")
    messages = plain.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Failed("bad_request", "messages must be a list with at least one message", param="messages")
    if isinstance(policy := plain.get("cache"), dict) and not policy.keys() <= set(CachePolicy.__struct_fields__):
        fields = ", ".join(CachePolicy.__struct_fields__)
        raise Failed("bad_request", f"cache has a field that is not known; it may have {fields}", param="cache")
    plain = form.normal_options(plain)
    if isinstance(policy, dict):
        plain["cache"] = {name: value for name, value in policy.items() if value is not None}
    limit_name = "max_tokens"
    if (limit := plain.pop("max_completion_tokens", None)) is not None:
        plain["max_tokens"], limit_name = limit, "max_completion_tokens"
    plain["messages"] = [
        _split(form.normal_turn(turn), _KNOWN_OF_A_TURN) if isinstance(turn, dict) else turn for turn in messages
    ]
    try:
        request = _converted(_split(plain, _KNOWN))
        form.check_ranges(request)
    except Failed as failed:
        if failed.failure.param == "max_tokens" != limit_name:
            detail = failed.failure.detail.replace("max_tokens", limit_name)
            raise Failed("bad_request", detail, param=limit_name) from None
        raise
    form.check_options(request.extra)
    form.check_tools(request.tools, request.tool_choice)
    form.check_format(request.response_format)
    for at, turn in enumerate(request.messages):
        form.check_turn(at, turn.role, turn.content, turn.tool_calls, turn.extra)
    return request


def _converted(plain: dict[str, Any]) -> ChatRequest:
    try:
        return msgspec.convert(plain, ChatRequest)
    except msgspec.ValidationError as error:
        problem = without_value(str(error))
        for name, choices in _CHOICES.items():
            if problem.endswith(f"`$.{name}`"):
                allowed = f"{', '.join(choices[:-1])} or {choices[-1]}"
                raise Failed("bad_request", f"{name} must be {allowed}", param=name) from None
        _, found, path = problem.partition("`$.")
        raise Failed("bad_request", problem, param=path.split("`")[0] if found else None) from None


class Usage(Body, frozen=True, kw_only=True, omit_defaults=False):
    """Tokens of one answer. `cached_tokens` of the prompt were not computed anew (all, when the answer was cached); the
    details are what else the engine says."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens_details: dict[str, Any] | None = None
    prompt_tokens_details: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class Accepted(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The request has been admitted and will end with Done or Failure. `replica` is the id of the process that does so:
    its service answers discovery by it, and a Resume names it."""

    request_id: str
    replica: str = ""


class Chunk(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of the answer. `seq` counts from 0 without gaps; `text`, `reasoning` and `tool_calls` are deltas.

    `logprobs` are OpenAI's entries (token, logprob, bytes, top_logprobs) of the tokens since the last chunk, where the
    request asks for them.
    """

    seq: int
    text: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] | None = None
    logprobs: list[dict[str, Any]] | None = None


class Note(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Something about the answer rather than of it. `kind`: cache, route, hedge, cascade, sources, compress,
    guard, verification, correction, timeline."""

    kind: str
    data: dict[str, Any]


class Ping(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing to say yet; sent at least every second of silence."""


CacheSource = Literal["exact", "semantic", "shared", "miss"]


class Done(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The answer is whole. `chunks` is how many were sent; `timings_ms` is per stage, from the request's arrival."""

    finish_reason: str
    usage: Usage = Usage()
    model: str = ""
    cache: CacheSource = "miss"
    timings_ms: dict[str, float] = {}
    ttft_ms: float = 0.0
    chunks: int = 0


ChatReply = Accepted | Chunk | Note | Ping | Done | Failure


class Nothing(Body, frozen=True, kw_only=True, omit_defaults=True):
    """An empty body."""


CHAT = Topic(
    name="chat",
    template="hasten.v1.chat.{tenant}",
    request=ChatRequest,
    reply=ChatReply,
    kind="stream",
    queue="orchestrator",
    decode=parse_chat,
    ping_s=0.5,
    summary="Ask; read accepted, chunk…, note… and one done or failure on the reply subject.",
)
CANCEL = Topic(
    name="cancel",
    template="hasten.v1.cancel.{tenant}.{request_id}",
    request=Nothing,
    kind="event",
    summary="The caller of this request has gone; whoever works on it stops.",
)
STOP = Topic(
    name="stop",
    template="hasten.v1.stop.{hearer}.{tenant}.{request_id}",
    request=Nothing,
    kind="event",
    summary="The same, from a service to those who may have its request: a service's replicas, a worker, one replica.",
)


class Finished(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A request has ended; the source of dashboards. It holds neither prompt nor answer. (Speeds: see Attempted.)

    `source` and `seq` number the events of one orchestrator from 1, so that a listener sees a gap.
    `outcome` is `done` or the code of the failure. `ttft_ms` is of the worker when `cache` is miss. `reason` says why
    the cache did not answer (as in CacheMiss, or `off` when it was not asked) and `guard` which guard refused; for a
    hit and for the nearest entry of a miss there are `entry_id` and `similarity`.
    """

    source: str
    seq: int
    request_id: str
    outcome: str
    cache: CacheSource = "miss"
    model: str = ""
    slug: str = ""
    worker: str = ""
    ttft_ms: float = 0.0
    worker_ttft_ms: float = 0.0
    total_ms: float = 0.0
    usage: Usage = msgspec.field(default_factory=Usage)
    timings_ms: dict[str, float] = {}
    reason: str = ""
    guard: str = ""
    entry_id: str = ""
    similarity: float | None = None


FINISHED = Topic(
    name="finished",
    template="hasten.v1.finished.{tenant}",
    request=Finished,
    kind="event",
    summary="Facts about every request that has ended.",
)
TOPICS = (CHAT, CANCEL, STOP, FINISHED)
