"""What an eviction names, and how its tags meet those of an answer; pure."""

from collections.abc import Iterable

import msgspec

EVERYBODY = "*"
"""The tenant of a change that concerns all of them."""
ALL = "*"
"""The tag that every answer carries: what evicts everything."""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """Which tags of a tenant (`*`: of all) are stale from now on. `reason` is the operation, or `unreadable`."""

    tenant: str
    tags: list[str]
    reason: str = ""


def expanded(tags: Iterable[str]) -> list[str]:
    """The tags under which the changes of an answer's tags are found: each one, and the level above it.

    `prices:7` is stale when all of `prices` is, and `prices` when any row of it is (`prices:*`).
    """
    return list(dict.fromkeys(form for tag in tags for form in (tag, above(tag))))


def above(tag: str) -> str:
    """`prices` for `prices:7`, and `prices:*` for `prices`."""
    table, found, _ = tag.partition(":")
    return table if found else f"{tag}:*"


def reaching(tags: Iterable[str]) -> list[str]:
    """The tags under which a change of these finds all answers: those, and `prices:*` for `prices:7`. It is the other
    side of `expanded`: an answer is stale when the two have a tag in common."""
    found = dict.fromkeys(tags)
    for tag in list(found):
        table, row, _ = tag.partition(":")
        if row:
            found[f"{table}:*"] = None
    return list(found)
