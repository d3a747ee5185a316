"""Keeps text from posing as the control tokens of a chat template, which would turn it into another speaker's words;
pure.

A space goes into what would be a control token, and nothing else changes: the text can still be read.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec

from hasten.messages.chat import SYSTEM_ROLES, Turn

_KNOWN = (
    r"<[|｜][^<>|｜\s]{1,64}[|｜]>",
    r"</?s>",
    r"<(?:bos|eos|unk|pad|mask|eod|eoh|eoa|eop)>",
    r"<(?:start|end)_of_(?:turn|image)>",
    r"<</?SYS>>",
    r"</?tool_(?:call|response|result)s?>",
    r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK|IMG)\]",
    r"\[(?:IMG_BREAK|IMG_END|PREFIX|MIDDLE|SUFFIX)\]",
    r"\[gMASK\]|<sop>",
)
"""ChatML (Qwen, Phi, SmolLM, Hermes), Llama 2 to 4, Mistral, Gemma, Phi 3, DeepSeek, Granite, Command R, harmony
(gpt-oss), GLM and their kin; a tokenizer adds its own."""
THOUGHT = ("<think>", "</think>")
"""Marks that are left alone: templates look for them in what an assistant has said, to leave its thoughts out."""
_BLANK = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
"""What has no shape of its own, and is left out by tokenizers that clean text; for use in a class of characters."""
_SHAPELESS = re.compile(f"[{_BLANK}]")
_LONGEST = 72
"""Characters of a control token, without blanks."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
Neutraliser = Callable[[str], str]


def neutraliser(control_tokens: Iterable[str] = ()) -> Neutraliser:
    """A function that puts a space after the first character of every control token, and changes nothing else.

    Characters that a tokenizer may normalise to those of a token count as these: full-width ones, and ones without a
    shape in between.
    """
    return _neutraliser(tuple(control_tokens))


@cache
def _neutraliser(control_tokens: tuple[str, ...]) -> Neutraliser:
    known = re.compile("|".join(_KNOWN))
    own = [one for one in sorted(control_tokens, key=len, reverse=True) if len(one) > 1 and not known.fullmatch(one)]
    pattern = re.compile("|".join((*map(re.escape, own), *_KNOWN)))
    opens = "<[" + "".join(token[0] for token in own)

    def neutral(text: str) -> str:
        safe = pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        return safe if safe.isascii() else _without_look_alikes(safe, pattern, opens)

    return neutral


def _without_look_alikes(text: str, pattern: re.Pattern[str], opens: str) -> str:
    """The text with a space in what is a control token once its characters are normalised."""
    pieces: list[str] = []
    done = 0
    for candidate in _candidates(opens).finditer(text):
        if candidate[0].isascii():
            continue
        shown, places = _folded(candidate[0])
        for found in pattern.finditer(shown):
            cut = candidate.start() + places[found.start() + 1]
            pieces += [text[done:cut], " "]
            done = cut
    return "".join([*pieces, text[done:]])


@cache
def _candidates(opens: str) -> re.Pattern[str]:
    """What begins and ends with characters that are normalised to those that a control token begins and ends with."""
    first, last = _like(opens), _like(">]")
    inner = f"[^{first}{last}{_BLANK}][{_BLANK}]*"
    return re.compile(f"(?:[{first}][{_BLANK}]*){{1,2}}(?:{inner}){{1,{_LONGEST}}}[{last}](?:[{_BLANK}]*[{last}])?")


def _like(wanted: str) -> str:
    """A class of characters: these, and all that are normalised to one of them."""
    rest = (chr(code) for code in (*range(0x2000, 0x3400), *range(0xFE00, 0x10000)))
    alike = {*wanted, *(one for one in rest if unicodedata.normalize("NFKC", one) in wanted)}
    return re.escape("".join(sorted(alike)))


def _folded(text: str) -> tuple[str, list[int]]:
    """The text as a tokenizer may normalise it, and where in the text each of its characters is from."""
    shown: list[str] = []
    places: list[int] = []
    for at, one in enumerate(text):
        if not _SHAPELESS.match(one):
            folded = one if one.isascii() else unicodedata.normalize("NFKC", one)
            shown.append(folded)
            places += [at] * len(folded)
    return "".join(shown), places


def neutral_turn(turn: Turn, neutral: Neutraliser) -> Turn:
    """The turn made safe, with its name and all that its content parts and tool calls hold; operators' as they are.

    JSON stays JSON: there a control token can only stand inside a string.
    """
    if turn.role in SYSTEM_ROLES:
        return turn
    escaped = turn.role == "tool"
    content = _neutral_value(turn.content, neutral, escaped=escaped)
    if isinstance(content, list):
        content = _apart(content, neutral)
    calls = _neutral_value(turn.tool_calls, neutral, escaped=True)
    name, call_id = (_neutral_value(one, neutral) for one in (turn.name, turn.tool_call_id))
    if (content, calls, name, call_id) == (turn.content, turn.tool_calls, turn.name, turn.tool_call_id):
        return turn
    return msgspec.structs.replace(turn, content=content, tool_calls=calls, name=name, tool_call_id=call_id)


def _apart(parts: list[dict[str, Any]], neutral: Neutraliser) -> list[dict[str, Any]]:
    """A line's end after each text where a template would join two parts into a control token."""
    joined = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    if neutral(joined) == joined:
        return parts
    return [{**part, "text": part["text"] + "\n"} if isinstance(part.get("text"), str) else part for part in parts]


def _neutral_value(value: Any, neutral: Neutraliser, *, escaped: bool = False) -> Any:
    """Every text in a value made safe. `escaped` ones may be JSON, as the arguments of a call are, which some templates
    decode before they show it: there a token may be written with escapes."""
    if isinstance(value, str):
        return neutral(_decoded(value, neutral) if escaped and "\\" in value else value)
    if isinstance(value, dict):
        return {neutral(name): _neutral_value(one, neutral, escaped=escaped) for name, one in value.items()}
    if isinstance(value, list):
        return [_neutral_value(one, neutral, escaped=escaped) for one in value]
    return value


def _decoded(text: str, neutral: Neutraliser) -> str:
    """JSON with those of its strings made safe that hold a control token once decoded; other text as it is."""

    def safe(found: re.Match[str]) -> str:
        try:
            plain = json.loads(found[0], strict=False)
        except ValueError:
            return found[0]
        made = neutral(plain)
        return found[0] if made == plain else json.dumps(made, ensure_ascii=False)

    return _STRING.sub(safe, text)
