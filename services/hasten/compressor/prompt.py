"""Lays out the prompt as messages: what is the same for every request first, what changes with each last."""

from collections.abc import Sequence

import msgspec

from hasten.messages.chat import Example, Turn


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """The compressor's own words: see the settings of the same names."""

    instruction: str
    introduction: str
    question: str
    earlier: str = ""


class Extract(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept of a passage, with the line that names it."""

    title: str
    text: str


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a prompt as they are to be laid out. `common` are the examples that every request gets."""

    system: list[Turn] = []
    common: list[Example] = []
    examples: list[Example] = []
    history: list[Turn] = []
    recalled: str = ""
    extracts: list[Extract] = []
    user: Turn | None = None
    steps: list[Turn] = []


def lay_out(draft: Draft, wording: Wording) -> tuple[list[Turn], int]:
    """The messages, and how many of them are the stable part.

    Order: one system turn, examples as turns of user and assistant, the history, the last user turn with what is
    recalled of left-out turns and the passages before the user's own words, and what came after it. Without a system
    text of the caller's, and with passages, the instruction is the system turn; a text of the caller's is left alone,
    and the introduction goes with the passages.
    """
    stable = _system(draft, wording) + _shown(draft.common)
    rest = _shown(draft.examples) + draft.history
    if draft.user is not None:
        introduction = wording.introduction if draft.system else ""
        recalled = f"{wording.earlier}\n{draft.recalled}" if draft.recalled else ""
        rest.append(_with_passages(draft.user, draft.extracts, recalled, introduction, wording.question))
    return [_sent(turn) for turn in stable + rest + draft.steps], len(stable)


def _sent(turn: Turn) -> Turn:
    return msgspec.structs.replace(turn, extra={}) if turn.extra else turn


def _system(draft: Draft, wording: Wording) -> list[Turn]:
    """At most one turn: templates want it first and alone. A developer's turn is one of the system."""
    if not draft.system:
        return [Turn(role="system", content=wording.instruction)] if draft.extracts and wording.instruction else []
    first = draft.system[0]
    if len(draft.system) == 1:
        return [msgspec.structs.replace(first, role="system")]
    texts = (turn.text for turn in draft.system)
    return [msgspec.structs.replace(first, role="system", content="\n\n".join(text for text in texts if text))]


def _shown(examples: Sequence[Example]) -> list[Turn]:
    return [
        turn
        for example in examples
        for turn in (Turn(role="user", content=example.user), Turn(role="assistant", content=example.assistant))
    ]


def _with_passages(user: Turn, extracts: Sequence[Extract], recalled: str, introduction: str, question: str) -> Turn:
    """The user's turn, unchanged but for the passages put before it; they are numbered so that they can be cited."""
    if not extracts and not recalled:
        return user
    blocks = [
        f"[{number}] {extract.title}".rstrip() + f"\n{extract.text}" for number, extract in enumerate(extracts, 1)
    ]
    shown = [recalled, introduction if extracts else "", *blocks]
    before = "\n\n".join(one for one in shown if one) + f"\n\n{question}"
    if isinstance(user.content, list):
        return msgspec.structs.replace(user, content=[{"type": "text", "text": before}, *user.content])
    return msgspec.structs.replace(user, content=before + (user.content or ""))
