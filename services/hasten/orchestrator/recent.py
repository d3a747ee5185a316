"""The exact hits that the cache has confirmed lately: the hottest questions need no other service; pure."""

from collections import OrderedDict

import msgspec
from msgspec import structs

from hasten.messages.cache import CacheHit

MOST_BYTES = 65_536
"""Of one hit: a larger one is asked for each time."""


class Recent:
    """At most `entries` hits of at most MOST_BYTES, each for `keep_s` after the cache confirmed it, and no longer than
    it may live.

    Whether a hit is still fresh is for the caller to check at every use. Times are seconds of one monotonic clock.
    """

    def __init__(self, entries: int, keep_s: float) -> None:
        self._entries, self._keep_s = entries, keep_s
        self._hits: OrderedDict[tuple[str, str], tuple[float, CacheHit]] = OrderedDict()

    def remember(self, tenant: str, key: str, hit: CacheHit, now_s: float) -> None:
        """Keeps a hit that has just been confirmed; the longest unused one makes room."""
        if len(msgspec.json.encode(hit)) > MOST_BYTES:
            self.forget(tenant, key)
            return
        self._hits[tenant, key] = (now_s, hit)
        self._hits.move_to_end((tenant, key))
        if len(self._hits) > self._entries:
            self._hits.popitem(last=False)

    def find(self, tenant: str, key: str, max_age_s: float | None, now_s: float) -> CacheHit | None:
        """The hit with its age and rest of life as of now; None when there is none that young."""
        found = self._hits.get((tenant, key))
        if found is None:
            return None
        confirmed_s, hit = found
        since_s = now_s - confirmed_s
        if since_s > min(self._keep_s, hit.lives_s):
            del self._hits[tenant, key]
            return None
        age_s = hit.age_s + since_s
        if max_age_s is not None and age_s >= max_age_s:
            return None
        self._hits.move_to_end((tenant, key))
        return structs.replace(hit, age_s=round(age_s, 3), lives_s=round(hit.lives_s - since_s, 3))

    def forget(self, tenant: str, key: str) -> None:
        """Drops the hit of a key: a newer answer is being stored."""
        self._hits.pop((tenant, key), None)
