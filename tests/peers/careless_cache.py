"""A cache with a fault of the kind that the model has to find: `python careless_cache.py FAULT --nats URL`.

`heedless` never looks at the changes; `hasty` takes an answer that is stored late for one that has just been read.
"""

import sys

import msgspec

from hasten.cache import service
from hasten.cache.domain import Entry, entry_of
from hasten.cache.settings import Settings
from hasten.messages.cache import CachePut
from hasten.run import main
from hasten.tag_table import TagTable


def heedless(*_: object) -> bool:
    """Everything is fresh."""
    return True


def hasty(put: CachePut, tenant: str, era: str, applied: int, now_ms: float, settings: Settings) -> Entry:
    """An entry that was read at the moment of its storing."""
    made = entry_of(put, tenant, era, applied, now_ms, settings)
    return msgspec.structs.replace(made, read_seq=applied)


if __name__ == "__main__":
    if sys.argv.pop(1) == "heedless":
        TagTable.fresh = heedless  # type: ignore[method-assign, assignment]
    else:
        service.entry_of = hasty  # type: ignore[attr-defined]
    main("cache")
