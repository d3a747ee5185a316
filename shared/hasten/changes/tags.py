"""What an eviction names, and how its tags meet those of an answer; pure."""

from collections.abc import Iterable, Sequence

import msgspec

EVERYBODY = "*"
"""The tenant of a change that concerns all of them."""
ALL = "*"
"""The tag that every answer carries: what evicts everything."""
MAX_CHARS = 2048
"""Of a tag that a replica remembers."""
MAX_TAGS = 1000
"""That one event evicts: each costs every replica some microseconds and bytes (130,000 of one event: over a second)."""


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


def bounded(tags: Sequence[str]) -> list[str]:
    """The tags, or instead of those that are too many or too long the level above, or everything: never less."""
    found = list(tags)
    if len(found) > MAX_TAGS:
        found = list({tag.partition(":")[0]: None for tag in found})
    found = [tag if len(tag) <= MAX_CHARS else tag.partition(":")[0] for tag in found]
    return found if len(found) <= MAX_TAGS and all(len(tag) <= MAX_CHARS for tag in found) else [ALL]


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
