"""A question to a tool of the operator's, which answers with passages: a look-up."""

from typing import Any

from hasten.messages.chat import Scalar
from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic


class Lookup(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks a look-up for at most `limit` passages. Its tenant is in the subject, and nowhere else.

    `filter` is that of the chat or Retrieve request, for a look-up that has use for it.
    """

    query: str
    filter: dict[str, Scalar | list[Scalar]] = {}
    limit: int = 8


class Finding(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A passage that a look-up has found: its text, and where that comes from.

    `id` names it among those of the look-up. `document` and the span (characters, all of the text by default) say where
    it stands; `tags` name the rows that it was made from (`prices:7`). `tenant` and `collection` may be repeated; a
    reply that names others is refused.
    """

    id: str
    text: str
    document: str = ""
    title: str = ""
    heading: str = ""
    url: str = ""
    start: int = 0
    end: int = 0
    tags: list[str] = []
    metadata: dict[str, Any] = {}
    tenant: str = ""
    collection: str = ""


class Found(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """What a look-up has found, best first; nothing is an answer too.

    `tags` are what the reply as a whole depends on (a table, so that a new row counts). `read_seq` is for a look-up
    that reads a copy of the data: the sequence of HASTEN_CHANGES up to which that copy had been brought. One that reads
    the source itself leaves it out.
    """

    passages: list[Finding] = []
    tags: list[str] = []
    read_seq: int | None = None


LOOKUP = Topic(
    name="lookup",
    template="hasten.v1.lookup.{tenant}.{lookup}",
    request=Lookup,
    reply=Found | Failure,
    summary="Find passages in a tool of the operator's; asked by the retriever, answered by that tool.",
)
TOPICS = (LOOKUP,)
