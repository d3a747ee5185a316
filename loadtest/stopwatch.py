"""The times of one stream of chunks, counted from the moment its request was due."""

import time

from loadtest.sample import Sample


class Stopwatch:
    """Told of each chunk (`chunk`), gives a sample its times (`stop`)."""

    def __init__(self, due: float) -> None:
        self._due = due
        self._first = self._last = self._gap = 0.0
        self._chunks = 0

    def chunk(self) -> None:
        """A chunk with something to read has come."""
        now = time.perf_counter()
        if self._chunks:
            self._gap = max(self._gap, now - self._last)
        else:
            self._first = now
        self._last = now
        self._chunks += 1

    def stop(self, sample: Sample) -> Sample:
        """The sample with its times; it must have its tokens already."""
        sample.total_ms = (time.perf_counter() - self._due) * 1000
        sample.chunks, sample.gap_ms = self._chunks, self._gap * 1000
        if self._chunks:
            sample.ttft_ms = (self._first - self._due) * 1000
            if sample.completion_tokens > 1:
                sample.tpot_ms = (self._last - self._first) * 1000 / (sample.completion_tokens - 1)
        return sample
