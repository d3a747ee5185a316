"""Text to vectors."""

from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic


class Embed(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Texts to embed, at most `limit` of the service at once (256 by default).

    `spans` asks for vectors of stretches of the texts (its sentences) beside: a list of (start, end) in characters for
    each text, or none at all.
    """

    texts: list[str]
    spans: list[list[tuple[int, int]]] = []


class Embedded(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """One unit-length float32 vector (little endian, `dim` × 4 bytes) per text, in order.

    `truncated` marks the texts longer than the model's window: their vectors stand for the beginning only. `spans` has
    the vectors of the stretches of each text that were asked for, one after the other: each a float32 (little endian)
    by which the `dim` signed bytes after it are multiplied. It is 0 for a stretch beyond the window.
    """

    vectors: list[bytes]
    dim: int
    model: str
    truncated: list[bool] = []
    tokens: list[int] = []
    spans: list[bytes] = []


EMBED = Topic(
    name="embed",
    template="hasten.v1.embed.{tenant}",
    request=Embed,
    reply=Embedded | Failure,
    queue="embedder",
    summary="Turn texts into vectors.",
)
TOPICS = (EMBED,)
