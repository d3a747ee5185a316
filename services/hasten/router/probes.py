"""Counts the requests that are finding out how fast a model is, so that they stay few; pure."""


class Probes:
    """Probes by model, from the decision until the attempt has ended, `most_s` at most: what reached a worker is in its
    status by then. Times are monotonic seconds."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._begun: dict[str, dict[str, float]] = {}

    def began(self, slug: str, flight: str, now_s: float) -> None:
        """A probe was sent."""
        self._begun.setdefault(slug, {})[flight] = now_s

    def ended(self, slug: str, flight: str) -> None:
        """An attempt has ended, which may have been a probe."""
        self._begun.get(slug, {}).pop(flight, None)

    def count(self, slug: str, now_s: float) -> int:
        """How many are on their way."""
        if not (begun := self._begun.get(slug)):
            return 0
        for flight in [flight for flight, at_s in begun.items() if now_s - at_s > self._most_s]:
            del begun[flight]
        return len(begun)
