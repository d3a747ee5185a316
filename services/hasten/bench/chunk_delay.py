"""From two sightings of every stream, the worker's and the reader's, how long its text took between them; pure."""

from bisect import bisect_left

import msgspec


class Tapped(msgspec.Struct, frozen=True, kw_only=True):
    """How long each chunk took (ms), and as many messages over a relay of bare NATS in as much time."""

    streams: int
    chunks: list[float]
    bare: list[float]


class Stream(msgspec.Struct):
    """One stream as it was seen in one place: after which time (s) how many characters had come."""

    moments: list[float] = []
    characters: list[int] = []


class Streams:
    """All streams, by the subject they were seen on; two that begin with the same word are one."""

    def __init__(self) -> None:
        self._from_workers: dict[str, Stream] = {}
        self._shown: dict[str, Stream] = {}
        self._names: dict[str, str] = {}

    def heard(self, subject: str, text: str, now: float, *, shown: bool) -> None:
        """Notes a chunk; the first word of a stream names it (its part before `n`)."""
        name = self._names.get(subject)
        if name is None:
            name = self._names[subject] = text.strip().partition("n")[0]
        stream = (self._shown if shown else self._from_workers).setdefault(name, Stream())
        stream.moments.append(now)
        stream.characters.append(len(text) + (stream.characters[-1] if stream.characters else 0))

    @property
    def pairs(self) -> list[tuple[Stream, Stream]]:
        """The worker's and the reader's sighting of each stream that has both."""
        return [(self._from_workers[name], shown) for name, shown in self._shown.items() if name in self._from_workers]

    @property
    def lasted_s(self) -> float:
        """From the first chunk of all to the last."""
        moments = [moment for _, shown in self.pairs for moment in shown.moments]
        return max(moments) - min(moments) if moments else 0.0


def delays_ms(streams: Streams) -> list[float]:
    """For every chunk of a worker, how long it took until the reader had all of its text."""
    found = []
    for made, shown in streams.pairs:
        for moment, characters in zip(made.moments, made.characters, strict=True):
            at = bisect_left(shown.characters, characters)
            if at < len(shown.moments):
                found.append(max(0.0, shown.moments[at] - moment) * 1000)
    return found
