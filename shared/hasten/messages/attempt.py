"""What routers and orchestrators tell all routers of the requests at workers: sent there, and how it went."""

from hasten.topics import Body, Topic


class Sent(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A router has sent a request to a worker, whose next status may not count it yet.

    `source` and `seq` number the events of one router from 1. `flight` is the id that the request was routed under and
    `tokens` what is to be computed of its prompt, by estimate; `prefix` are the prompt's beginnings as in Route, which
    the worker will have in its cache. A `probe` was sent to find out how fast the model is.
    """

    source: str
    seq: int
    flight: str
    tokens: int = 0
    prefix: dict[str, int] = {}
    probe: bool = False


SENT = Topic(
    name="sent",
    template="hasten.v1.sent.{slug}.{worker}",
    request=Sent,
    kind="event",
    summary="A request was sent to a worker.",
)


class Attempted(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt at a worker has ended; a request may take several, and each counts for the model that it was made at.

    `source` and `seq` number the events of one orchestrator from 1, so that a listener sees a gap. `at_ms` is the unix
    time of the end. `outcome` is `done`, `cancelled`, or the code of the failure. `ttft_ms` is the time to the first
    chunk, 0 when there was none, and `total_ms` that to the end. `flight` is as in Sent.
    `request` says of one that failed who had asked: the tenant and the request id, with a slash between them.
    """

    source: str
    seq: int
    at_ms: float
    flight: str
    worker: str
    outcome: str
    request: str = ""
    ttft_ms: float = 0.0
    total_ms: float = 0.0


ATTEMPTED = Topic(
    name="attempted",
    template="hasten.v1.attempted.{slug}",
    request=Attempted,
    kind="event",
    summary="How an attempt at a worker went; the stream HASTEN_ATTEMPTS keeps the latest of each model.",
)
TOPICS = (SENT, ATTEMPTED)
