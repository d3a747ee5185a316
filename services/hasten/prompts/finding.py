"""What a review of a prompt finds; pure."""

from typing import Literal

import msgspec

Kind = Literal[
    "preamble",
    "filler",
    "repeated",
    "example",
    "contradiction",
    "dead",
    "whitespace",
    "tools",
    "volatile",
    "placeholder",
]


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces the characters from `start` to `end`; `moved` text goes to the end of the text instead."""

    start: int
    end: int
    text: str = ""
    moved: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a text, at the characters from `start` to `end`; `line` counts from 1.

    `tokens` are those that its suggestion saves and, of what changes with each request (volatile, placeholder),
    `after` are those behind it, which are computed anew each time. `edit` is the suggestion; None leaves it to people.
    """

    kind: Kind
    start: int
    end: int
    why: str
    edit: Edit | None = None
    line: int = 0
    text: str = ""
    tokens: int = 0
    after: int = 0
