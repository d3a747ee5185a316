"""What a gateway writes down of an answer that it streams, so that any other one can go on with it; for gateways only.

The entries of one answer have one subject in a stream of JetStream that is kept in memory for a few minutes.
"""

from typing import Any

from hasten.messages.chat import ChatReply
from hasten.topics import Body, Topic

STREAM = "HASTEN_STREAMED"


class Opened(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The first entry of a writer. `request` is the body as it was asked (absent when it was too large to be kept),
    `user` the only one who may read on where its cache scope says so, `asked_ms` and `deadline_ms` unix ms. One that
    goes on with what another has begun says so with `again`, and after which chunk and note."""

    request: dict[str, Any] | None = None
    user: str = ""
    asked_ms: int = 0
    deadline_ms: float = 0.0
    again: bool = False
    chunks: int = 0
    notes: int = 0


class Streamed(Body, frozen=True, kw_only=True, omit_defaults=True):
    """An event of the answer as it was passed on by `writer`, and where the answer stands after it: so many `chunks`,
    and so many `notes` after the last of them. `replica` is the orchestrator that it came from."""

    writer: str
    opened: Opened | None = None
    event: ChatReply | None = None
    chunks: int = 0
    notes: int = 0
    replica: str = ""


class Taken(Body, frozen=True, kw_only=True, omit_defaults=True):
    """From now on `writer` reads this answer: whoever did before has lost its reader."""

    writer: str


STREAMED = Topic(
    name="streamed",
    template="hasten.v1.streamed.{tenant}.{request_id}",
    request=Streamed,
    kind="stored",
    summary="An event of an answer that a gateway has passed on; for gateways only.",
)
TAKEN = Topic(
    name="taken",
    template="hasten.v1.taken.{tenant}.{request_id}",
    request=Taken,
    kind="event",
    summary="A gateway goes on with an answer that another one was reading; for gateways only.",
)
TOPICS = (STREAMED, TAKEN)
