"""What identifies a request: an exact key, and a partition that holds everything but the user's last words."""

import hashlib
from typing import Any

import msgspec

from hasten.messages.chat import ChatRequest, Turn
from hasten.topics import Body

SCHEMA = "1"
"""Part of every hash: a change of what is hashed, or of how tags are made, makes all older entries unreachable."""
IGNORED = frozenset({"cache", "deadline_ms", "priority", "explain", "user"})
"""Fields of a request that do not change its answer (scope and tags of `cache` are handled apart)."""
IGNORED_EXTRA = frozenset({"metadata", "store", "service_tier", "prompt_cache_key", "safety_identifier"})
"""Unknown-to-us options that are known not to change an answer."""


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
    if isinstance(plain.get("content"), list) and all(part.get("type") == "text" for part in plain["content"]):
        plain["content"] = turn.text
    return plain


def fingerprint(request: ChatRequest) -> Fingerprint:
    """Hashes the normalised request: developer counts as system, a list of text parts as its text; order matters.

    The key holds every field that is not on an explicit ignore list, unknown ones included.
    """
    plain: dict[str, Any] = msgspec.to_builtins(request)
    options = {
        name: value for name, value in plain.items() if name not in IGNORED and name not in ("messages", "extra")
    }
    options["extra"] = {name: value for name, value in request.extra.items() if name not in IGNORED_EXTRA}
    options["user"] = request.user if request.cache.scope == "user" else None
    options["schema"] = SCHEMA
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
