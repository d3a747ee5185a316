"""What a replica has stored or read lately, so that a question whose entry is gone can be told from a new one; pure."""

from collections import OrderedDict

from msgspec import structs

from hasten.cache.domain import Entry, entry_id
from hasten.messages.cache import Answer

_NONE = Answer(text="")
MOST_BYTES = 16_384
"""Of one entry: who stores one with more tags than that has no explanation of its going."""


class Past:
    """The last `most` entries without question and answer, for explanations alone: nothing is served from here, and
    what was deleted is not kept after all."""

    def __init__(self, most: int = 2048) -> None:
        self._most = most
        self._kept: OrderedDict[str, Entry] = OrderedDict()

    def keep(self, entry: Entry) -> None:
        """Remembers an entry."""
        model = structs.replace(_NONE, model=entry.answer.model)
        kept = structs.replace(entry, text="", answer=model)
        if kept.size > MOST_BYTES:
            self._kept.pop(entry.id, None)
            return
        self._kept[entry.id] = kept
        self._kept.move_to_end(entry.id)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def recall(self, tenant: str, key: str) -> Entry | None:
        """The entry that was last known under this key."""
        return self._kept.get(entry_id(tenant, key))
