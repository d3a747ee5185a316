"""Going on with an answer whose stream was lost: what its reader has of it, so that nothing is said twice or otherwise.

The request id is that of the lost stream, in the Hasten-Request-Id header as everywhere.
"""

from typing import Any

from hasten.messages.chat import ChatReply
from hasten.topics import Body, Topic


class Resume(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for the rest of an answer, from the chunk after `last` on; -1 when there was none. `notes` is how many notes
    came after that chunk: where the same generation can be gone on with, they are not sent again.

    `replica` is what Accepted said. Where that replica lives this is enough: the answer is still there for a while.
    Where it has gone, another one makes the same prompt again and lets the same model go on. For that it needs the
    `request` as it was asked, the text of each chunk in `shown` (left out when there were others than of text), and
    `model` and `prompt` of the last `route` note: the answer goes on only if the new prompt has this hash. `asked_ms`
    is when the request was made (unix ms); its `deadline_ms` counts from then.
    """

    last: int = -1
    replica: str = ""
    request: dict[str, Any] | None = None
    shown: list[str] = []
    model: str = ""
    prompt: str = ""
    asked_ms: int = 0
    notes: int = 0


RESUME = Topic(
    name="resume",
    template="hasten.v1.resume.{tenant}",
    request=Resume,
    reply=ChatReply,
    kind="stream",
    queue="orchestrator",
    ping_s=0.5,
    replaces=True,
    summary="Go on with an answer whose stream was lost, from the chunk after the last that came.",
)
REJOIN = Topic(
    name="rejoin",
    template="hasten.v1.rejoin.{replica}",
    request=Resume,
    reply=ChatReply,
    kind="stream",
    ping_s=0.2,
    replaces=True,
    summary="The same, of the orchestrator that has the answer; for orchestrators only.",
)
TOPICS = (RESUME, REJOIN)
