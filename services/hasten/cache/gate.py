"""What happens to a hit by meaning before it leaves: counted for the alarm, held back in shadow mode, else let out."""

from hasten.cache.alarm import HitRateAlarm
from hasten.cache.figures import Figures
from hasten.cache.settings import Settings
from hasten.messages.cache import CacheHit, CacheMiss
from hasten.telemetry import logger

log = logger("cache")
UNJUDGED = frozenset({"lease", "disabled", "unavailable", "short", "uncacheable"})
"""Reasons of a lookup by meaning that has compared nothing, so that it says nothing about the hit rate."""


class Gate:
    """Lets the hits by meaning of one replica out, or not."""

    def __init__(self, settings: Settings, figures: Figures) -> None:
        self._settings, self._figures = settings, figures
        self._alarm = HitRateAlarm(settings.alarm_window, settings.alarm_jump, settings.alarm_memory)
        self._quiet = {f"collection:{name}" for name in settings.shadow_collections}

    def passed(self, found: CacheHit | CacheMiss, threshold: float, *, counted: bool = True) -> CacheHit | CacheMiss:
        """What a lookup by meaning has found; a hit that is held back is a miss that names the entry. What is not
        `counted` is none of the alarm's business."""
        if isinstance(found, CacheMiss):
            if counted and found.reason not in UNJUDGED:
                self._count(hit=False)
            return found
        if found.kind == "exact":
            return found
        if counted:
            self._count(hit=True)
        if self._settings.shadow or not self._quiet.isdisjoint(found.tags):
            reason = "shadow"
        elif self._alarm.on and self._settings.alarm_stops:
            reason = "alarm"
        else:
            return found
        return CacheMiss(reason=reason, nearest=found.entry_id, similarity=found.similarity, threshold=threshold)

    def _count(self, *, hit: bool) -> None:
        if self._alarm.look(hit):
            before, now = 100 * self._alarm.long_run, 100 * self._alarm.recent
            log.warning("the hit rate by meaning has jumped from %.0f%% to %.0f%%: are the hits right?", before, now)
        self._figures.rate_alarm(self._alarm.on)
