"""A question to a guard of the operator's: may a reader be shown this piece of an answer?"""

from typing import Literal

from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic

Kind = Literal["text", "reasoning", "tool_calls"]


class GuardWindow(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The end of an answer as it stands: `text`, of which the reader has been shown what is before `new` (0 at the
    beginning of the answer). `kind` says whether it is of the answer's text, its reasoning, or the arguments of a tool
    call (a piece of JSON). `last` says that nothing will follow. The tenant is in the subject."""

    text: str
    new: int = 0
    kind: Kind = "text"
    last: bool = False


class GuardSpan(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Characters of a window, `text[start:end]`, that must not be shown; what was shown already stays."""

    start: int
    end: int


class GuardVerdict(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """What must not be shown of a window; nothing is an answer too. A rule that stops ends the answer before the first
    span, and `stop` ends it before all that is new, whatever the rule does.

    `hold` is how many characters at the end may be the beginning of what must not be shown: they are not shown yet, and
    are new again in the next window. Any beyond the rule's `longest`, and all in the last window, are shown.
    """

    spans: list[GuardSpan] = []
    stop: bool = False
    hold: int = 0


GUARD = Topic(
    name="guard",
    template="hasten.v1.guard.{tenant}.{rule}",
    request=GuardWindow,
    reply=GuardVerdict | Failure,
    summary="May a reader be shown this? Asked by the orchestrator, answered by a guard of the operator's.",
)
TOPICS = (GUARD,)
