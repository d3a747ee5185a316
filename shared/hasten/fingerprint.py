"""What identifies a request: an exact key, and a partition that holds everything but the user's last words."""

import hashlib
from typing import Any

import msgspec

from hasten.messages.chat import ChatRequest, Turn
from hasten.topics import Body

SCHEMA = "2"
"""Part of every hash: a change of what is hashed, or of how tags are made, makes all older entries unreachable."""
IGNORED = frozenset({"cache", "deadline_ms", "priority", "explain", "user"})
"""Fields of a request that do not change its answer (scope and tags of `cache` are handled apart)."""
IGNORED_EXTRA = frozenset({"metadata", "store", "service_tier", "prompt_cache_key", "safety_identifier"})
"""Unknown-to-us options that are known not to change an answer."""
_PARTS = {
    "model": "model",
    "tools": "tools",
    "tool_choice": "tools",
    "response_format": "response_format",
    "knowledge": "knowledge",
    "filter": "filter",
    "examples": "examples",
    "extra": "options",
    "user": "user",
}
"""What the fields of a partition are called when one says which of them differ; all others are `sampling`."""
_APART = IGNORED | {"messages", "extra"}
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(ChatRequest)}
"""Compared by value: omit_defaults compares strings by identity, and what was decoded is never the default itself."""
_SHORT = 12
"""Hexadecimal digits of a short hash."""


class Fingerprint(Body, frozen=True, kw_only=True, omit_defaults=True):
    """`key` is equal only for requests with the same answer; `partition` for those that differ in `text` alone.

    `single_turn` says whether the request is text of one user turn, which may be looked up by meaning.
    """

    key: str
    partition: str
    text: str
    single_turn: bool


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _canonical(turn: Turn) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(turn)
    if plain["role"] == "developer":
        plain["role"] = "system"
    if _is_one_text(plain.get("content")):
        plain["content"] = turn.text
    return plain


def _is_one_text(content: Any) -> bool:
    """Whether this is a list of one part that says no more than its text. How an engine joins several is its own."""
    if not isinstance(content, list) or len(content) != 1:
        return False
    part = content[0]
    return part.keys() == {"type", "text"} and part["type"] == "text" and isinstance(part["text"], str)


def _options(request: ChatRequest) -> dict[str, Any]:
    """Every field that can change the answer, the turns aside; one that says its default says nothing."""
    plain: dict[str, Any] = msgspec.to_builtins(request)
    options = {name: value for name, value in plain.items() if name not in _APART and value != _DEFAULTS.get(name)}
    options["extra"] = {name: value for name, value in request.extra.items() if name not in IGNORED_EXTRA}
    options["user"] = request.user if request.cache.scope == "user" else None
    return options


def parts_of(request: ChatRequest) -> dict[str, str]:
    """A short hash of each part of the partition that is not empty: model, system, history, tools, response_format,
    sampling, knowledge, filter, examples, options (those we do not know) and user (where `cache.scope` is user).

    Two requests whose parts are equal have the same partition, which is what tells partitions apart afterwards.
    """
    groups: dict[str, dict[str, Any]] = {}
    for name, value in {"model": request.model, **_options(request)}.items():
        if value not in (None, [], {}):
            groups.setdefault(_PARTS.get(name, "sampling"), {})[name] = value
    parts = {name: _digest(group)[:_SHORT] for name, group in groups.items()}
    before = [_canonical(turn) for turn in request.messages[:-1]]
    if system := [turn for turn in before if turn["role"] == "system"]:
        parts["system"] = _digest(system)[:_SHORT]
    if len(system) < len(before):
        parts["history"] = _digest([None if turn["role"] == "system" else turn for turn in before])[:_SHORT]
    return parts


def prompt_tag(request: ChatRequest) -> str | None:
    """`prompt:<short hash>` of the system text, the tag of every answer given under it; None without one."""
    system = [plain for plain in map(_canonical, request.messages[:-1]) if plain["role"] == "system"]
    return f"prompt:{_digest(system)[:_SHORT]}" if system else None


def short(digest: str) -> str:
    """The beginning of a key or partition, enough to tell it from others."""
    return digest[:_SHORT]


def question_hash(text: str) -> str:
    """A hash of a question that is blind to case, spacing and closing punctuation."""
    normal = " ".join(text.casefold().split()).rstrip(" .!?…")
    return hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def fingerprint(request: ChatRequest) -> Fingerprint:
    """Hashes the normalised request: developer counts as system, a list of one text part as its text; order matters.

    The key holds every field that is not on an explicit ignore list, unknown ones included.
    """
    options = {**_options(request), "schema": SCHEMA}
    turns = [_canonical(turn) for turn in request.messages]
    last = request.messages[-1]
    text = last.text if last.role == "user" else ""
    others = [turn for turn in turns if turn["role"] != "system"]
    only_text = isinstance(turns[-1].get("content"), str) and set(turns[-1]) <= {"role", "content"}
    partition = _digest([options, turns[:-1]])
    return Fingerprint(
        key=_digest([partition, turns[-1]]),
        partition=partition,
        text=text,
        single_turn=bool(text) and len(others) == 1 and only_text,
    )
