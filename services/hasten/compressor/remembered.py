"""Token counts of texts that were counted lately, by a hash: a text is counted for several reasons on its way."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence


class Remembered:
    """Asks `count` for the texts that it has not met among the last `kept`, all at once. Safe for several threads."""

    def __init__(self, count: Callable[[list[str]], list[int]], kept: int) -> None:
        self._count, self._kept = count, kept
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The count of each text."""
        keys = [hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest() for text in texts]
        with self._lock:
            found = {key: self._counts.get(key) for key in keys}
        new = {key: text for key, text in zip(keys, texts, strict=True) if found[key] is None}
        if new:
            found |= dict(zip(new, self._count(list(new.values())), strict=True))
        with self._lock:
            for key in found:
                self._counts[key] = found[key] or 0
                self._counts.move_to_end(key)
            while len(self._counts) > self._kept:
                self._counts.popitem(last=False)
        return [found[key] or 0 for key in keys]
