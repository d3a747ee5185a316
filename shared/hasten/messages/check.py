"""A question to a check of the operator's: what is to be said of a whole answer?"""

from typing import Any

from hasten.messages.failure import Failure
from hasten.messages.retrieve import Passage
from hasten.topics import Body, Reply, Topic


class Check(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A whole answer as its reader has it: the user's last words as `question`, the `text`, and the passages of the
    prompt in the order of their numbers, the first being cited as [1]. The tenant is in the subject."""

    question: str
    text: str
    model: str = ""
    passages: list[Passage] = []


class Correction(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What should stand in place of `text[start:end]` of the answer (characters)."""

    start: int
    end: int
    text: str


class Checked(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """What a check has found. An answer that has not `passed` is not stored. `detail` and `data` are told to the
    reader, and so is each correction; the text that was sent stays as it is."""

    passed: bool = True
    detail: str = ""
    data: dict[str, Any] = {}
    corrections: list[Correction] = []


CHECK = Topic(
    name="check",
    template="hasten.v1.check.{tenant}.{check}",
    request=Check,
    reply=Checked | Failure,
    summary="What is to be said of an answer? Asked by the orchestrator, answered by a check of the operator's.",
)
TOPICS = (CHECK,)
