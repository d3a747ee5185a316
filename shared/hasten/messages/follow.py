"""The conversation of two orchestrator replicas: the one that leads a generation lets the other read along."""

from typing import Any

from hasten.messages.chat import ChatReply, Turn
from hasten.topics import Body, Reply, Topic


class Follow(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for everything that has been and will be said of the flight under the lease `key`, from the first event on.

    `key` is a hash of the tenant and of all that must be equal for two requests to share one answer. The tenant is in
    the Hasten-Tenant header.
    """

    key: str


class Basis(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """What the answer rests on: sent before anything else, and once more, then whole, before the first chunk.

    `tags` and `read_seq` are what it depends on and how far HASTEN_CHANGES had been read. `model` and `messages` are
    the prompt as the worker has it, with which a follower goes on should its leader be lost; `sources` are the passages
    in it.
    """

    tags: list[str] = []
    read_seq: int = 0
    model: str = ""
    messages: list[Turn] = []
    sources: list[dict[str, Any]] = []


FOLLOW = Topic(
    name="follow",
    template="hasten.v1.follow.{replica}",
    request=Follow,
    reply=ChatReply | Basis,
    kind="stream",
    ping_s=0.2,
    summary="Read along with a generation that another orchestrator leads; for orchestrators only.",
)
TOPICS = (FOLLOW,)
