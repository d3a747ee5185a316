"""Declares what a message and a topic are; every subject is made here, so a bad token never reaches the server."""

import os
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec

PREFIX = "hasten.v1"
PING_S = 1.0
_TOKEN = re.compile(r"[a-z0-9_-]{1,64}")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a message: JSON on the wire, unknown fields skipped, new fields always with a default."""


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Reply(Body, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=_tag):
    """A body that answers a request; `type` says which member of the topic's union it is."""


class BadName(ValueError):
    """A tenant, slug, worker, collection or source name that must not become part of a subject."""


def checked(kind: str, value: str) -> str:
    """Returns `value` if it may become a subject token ([a-z0-9_-], 1 to 64 characters); raises BadName otherwise."""
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise BadName(f"{kind} must be 1 to 64 characters of a-z, 0-9, _ and -")
    return value


def random_id() -> str:
    """A new id for a request or a replica, fit for a subject."""
    return os.urandom(8).hex()


@lru_cache
def _tokens(template: str) -> tuple[tuple[str, str], ...]:
    """The tokens of a template: (itself, "") or ("", the name of a placeholder)."""
    found = ((part, _PLACEHOLDER.fullmatch(part)) for part in template.split("."))
    return tuple(("", name[1]) if name else (part, "") for part, name in found)


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation on the bus, declared once beside its Structs.

    `template` holds the subject with its tokens in braces; `request` is the body's type; `reply` the union that
    answers it (None for events). `kind` is `request` (one reply), `stream` (many, ended by done or failure),
    `event` (to everybody, may be lost) or `stored` (JetStream acknowledges it). `queue` names the queue group of the
    service that hears it; None means that every subscriber does. `decode` replaces the plain decoding of the body.
    `ping_s` is the longest silence of a stream. A request of a stream that `replaces` stops the one with the same id
    that is still being answered; otherwise it is refused.
    """

    name: str
    template: str
    request: Any
    reply: Any = None
    kind: Literal["request", "stream", "event", "stored"] = "request"
    queue: str | None = None
    decode: Callable[[bytes], Any] | None = None
    ping_s: float = PING_S
    replaces: bool = False
    summary: str = ""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of the tokens in the template, in order."""
        return tuple(name for _, name in _tokens(self.template) if name)

    def subject(self, **tokens: str) -> str:
        """The subject for these tokens; raises BadName for one that may not be in a subject, KeyError without one."""
        return ".".join([text or checked(name, tokens[name]) for text, name in _tokens(self.template)])

    def hearer(self, tokens: dict[str, str]) -> str | None:
        """The service of its queue group, else whoever the last token names; None if that is not given."""
        return self.queue or tokens.get(self.tokens[-1])

    @property
    def pattern(self) -> str:
        """The subject a service subscribes to: every token a wildcard."""
        return _PLACEHOLDER.sub("*", self.template)

    def narrowed(self, **tokens: str) -> str:
        """Like `pattern`, with the given tokens filled in: what one worker subscribes to."""
        return _PLACEHOLDER.sub(
            lambda found: checked(found[1], tokens[found[1]]) if found[1] in tokens else "*", self.template
        )

    def parse(self, subject: str) -> dict[str, str]:
        """The tokens of a subject of this topic by name; raises BadName when it is not one."""
        parts, tokens = subject.split("."), _tokens(self.template)
        if len(parts) != len(tokens):
            raise BadName(f"the subject of {self.name} is {self.template}")
        return {name: checked(name, part) for part, (_, name) in zip(parts, tokens, strict=True) if name}
