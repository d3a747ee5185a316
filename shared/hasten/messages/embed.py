"""Text to vectors."""

from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic


class Embed(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Texts to embed, at most `limit` of the service at once (256 by default)."""

    texts: list[str]


class Embedded(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """One unit-length float32 vector (little endian, `dim` × 4 bytes) per text, in order.

    `truncated` marks the texts longer than the model's window: their vectors stand for the beginning only.
    """

    vectors: list[bytes]
    dim: int
    model: str
    truncated: list[bool] = []
    tokens: list[int] = []


EMBED = Topic(
    name="embed",
    template="hasten.v1.embed.{tenant}",
    request=Embed,
    reply=Embedded | Failure,
    queue="embedder",
    summary="Turn texts into vectors.",
)
TOPICS = (EMBED,)
