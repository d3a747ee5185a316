"""What an answer says against itself: nothing, half of it, another form than asked for, a refusal, unlikely words.

Pure, and without a model: each signal is what the small model has shown by itself.
"""

import json
import re
from typing import Any, Literal

import msgspec

from hasten.messages.chat import Chunk
from hasten.messages.generate import Confidence
from hasten.orchestrator.schema import fits

Doubt = Literal["empty", "truncated", "format", "refusal", "unsure"]
HEAD = 160
"""Characters in which a refusal shows; later on, "I don't know" is said about something else."""
_ACTS = (
    "answer|help|assist|provide|determine|tell|say|find|comply|do that|give|access|confirm|see|verify|fulfil+|generate"
    "|create|write|share|offer|discuss|recommend|predict|browse|perform|complete|support|engage|respond|identify|locate"
)
_REFUSAL = re.compile(
    r"(?:^|[.!?:,]\s+|\b(?:but|sorry|afraid)[ ,]+(?:that )?)"
    r"(?:unfortunately,? |sorry,? (?:but )?|as an ai[^.,]*[.,] ?)*"
    r"(?:i (?:really )?(?:don't|do not) (?:know|have (?:any |enough |access|the )?(?:specific |real-time )?"
    r"(?:information|knowledge|data|context|access|ability|capability|details?))"
    r"|i(?:'m| am) (?:not (?:sure|certain|able to|familiar with|aware of)|unable to)"
    rf"|i (?:can't|cannot|can not|could not|couldn't|won't|will not) (?:\w+ly )?(?:{_ACTS})"
    r"|(?:there is |there's )?(?:no|not enough|insufficient) (?:information|context|mention|details?) "
    r"|(?:the |this |it )(?:\w+ ){0,3}(?:does not|doesn't|do not|don't) "
    r"(?:mention|say|state|provide|contain|specify|include|give)"
    r"|(?:it|this|that) is (?:not|un)(?: )?(?:mentioned|stated|specified|clear|possible to (?:say|tell|determine)))"
)
_WHOLE = re.compile(
    r"^\W*(?:unknown|not sure|no idea|n/?a|none|no answer|unanswerable|not (?:given|mentioned|stated))\W*$"
)


ROOM = 2
"""A better model is only asked when this many times the draft's own time is left: it is hardly faster."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Below which mean and least log-probability an answer is doubted; minus infinity for never."""

    mean_logprob: float = float("-inf")
    min_logprob: float = float("-inf")


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An answer so far. `finish_reason` is empty while it goes on; `limited` says that the caller chose its length."""

    text: str = ""
    calls_tools: bool = False
    finish_reason: str = ""
    limited: bool = False
    confidence: Confidence | None = None
    response_format: dict[str, Any] | None = None


def draft_of(chunks: list[Chunk], **fields: Any) -> Draft:
    """The draft that these chunks make."""
    text, calls = "".join(chunk.text for chunk in chunks), any(chunk.tool_calls for chunk in chunks)
    return Draft(text=text, calls_tools=calls, **fields)


def doubt(draft: Draft, bounds: Bounds) -> Doubt | None:
    """The first reason not to show the draft, None when there is none.

    What only the end can show (nothing said, cut off, a form not completed) is judged there; the rest at once. An
    answer that the caller's own limit has cut would be cut from any model.
    """
    ended = bool(draft.finish_reason)
    if ended and not draft.text.strip() and not draft.calls_tools:
        return "empty"
    if draft.finish_reason == "length" and not draft.limited:
        return "truncated"
    if not draft.calls_tools and not (draft.finish_reason == "length" and draft.limited) and not _in_form(draft, ended):
        return "format"
    if not draft.calls_tools and refuses(draft.text):
        return "refusal"
    known = draft.confidence
    if known and (known.mean_logprob < bounds.mean_logprob or known.min_logprob < bounds.min_logprob):
        return "unsure"
    return None


def in_time(left_ms: float, spent_ms: float) -> bool:
    """Whether there is the time to ask a better model, when a draft has taken `spent_ms` of it."""
    return left_ms >= ROOM * spent_ms


def refuses(text: str) -> bool:
    """Whether an English answer begins by saying that there is none."""
    head = text[:HEAD].replace("\u2019", "'").strip().lower()
    return bool(_REFUSAL.search(head) or _WHOLE.match(text.strip().lower()))


def _in_form(draft: Draft, ended: bool) -> bool:
    form = draft.response_format or {}
    if form.get("type") not in ("json_object", "json_schema"):
        return True
    if not ended:
        return draft.text.lstrip()[:1] in ("", "{", "[", '"') or form["type"] == "json_schema"
    try:
        value = json.loads(draft.text)
    except ValueError:
        return False
    if form["type"] == "json_object":
        return isinstance(value, dict)
    return fits(value, (form.get("json_schema") or {}).get("schema", True))
