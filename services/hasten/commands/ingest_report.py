"""What `hasten ingest` says while it works and at the end: to people on stderr and stdout, or as one JSON object."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hasten.delivery import Delivery, Tally

SHOW_S = 0.2
REASONS = 100
"""Sentences that go into the JSON object; people see all of them, as they come."""


class Report:
    """Follows one `delivery`. `wrong` is how many things are not as they should be."""

    def __init__(self, collection: str, *, dry: bool = False, json: bool = False) -> None:
        self.collection, self._dry, self._json = collection, dry, json
        self.files = self.bytes = self.wrong = self.unread = 0
        self._total_files, self._total_bytes = 0, 0
        self._reasons: list[str] = []
        self._began = time.monotonic()
        self.delivery: Delivery | None = None
        columns = (
            BarColumn(bar_width=12),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
        self._bar = self._progress.add_task("ingesting", total=None, said="")

    @property
    def _tally(self) -> Tally:
        return self.delivery.tally if self.delivery else Tally()

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Meanwhile shows how far it is."""
        with self._progress:
            showing = asyncio.create_task(self._show())
            try:
                yield
            finally:
                showing.cancel()
                self._update()

    async def _show(self) -> None:
        while True:
            self._update()
            await asyncio.sleep(SHOW_S)

    def _update(self) -> None:
        waits = f" · waiting for {self.delivery.waits_for}" if self.delivery and self.delivery.waits_for else ""
        files = f"{self.files}/{self._total_files or '?'} files"
        said = (
            f"{files} · {self._tally.done} documents · {self.chunks_per_s:.0f} chunks/s · {decimal(self.bytes)}{waits}"
        )
        self._progress.update(self._bar, completed=self.bytes, total=self._total_bytes or None, said=said)

    def measured(self, counting: "asyncio.Task[tuple[int, int]]") -> None:
        """Takes how much there is to read."""
        if not counting.cancelled() and counting.exception() is None:
            self._total_files, self._total_bytes = counting.result()

    @property
    def chunks_per_s(self) -> float:
        """Chunks indexed a second, since the beginning."""
        return self._tally.chunks / max(time.monotonic() - self._began, 1e-3)

    @property
    def cannot_prune(self) -> bool:
        """Whether a document that is not there may only not have been read."""
        return self.unread > 0

    def read(self, size: int) -> None:
        """A file of so many bytes has been read to its end."""
        self.files += 1
        self.bytes += size

    def unreadable(self, why: str) -> None:
        """A file or a row makes no document."""
        self.unread += 1
        self.refuse(why)

    def refuse(self, why: str) -> None:
        """A document is not there, for a reason."""
        self.say(why)

    def say(self, why: str) -> None:
        """Something is not as it should be."""
        self.wrong += 1
        if len(self._reasons) < REASONS:
            self._reasons.append(why)
        self._progress.console.print(why, style="red", markup=False, soft_wrap=True)

    def end(self) -> None:
        """Says what was done, in one line."""
        print(self._encoded() if self._json else self._line(), flush=True)

    def _line(self) -> str:
        tally, refused = self._tally, self._tally.failed + self.unread
        there, would = tally.ingested + tally.unchanged, "would be " if self._dry else ""
        rate = f" ({tally.chunks} chunks, {self.chunks_per_s:.0f} a second)" if tally.chunks else ""
        done = f"{tally.ingested} {would}ingested{rate}, {tally.unchanged} unchanged, {tally.deleted} {would}removed"
        verb = "would be" if self._dry else "are"
        return f"{there} of {there + refused} documents {verb} in {self.collection}: {done}, {refused} refused"

    def _encoded(self) -> str:
        tally = self._tally
        found: dict[str, Any] = {
            "collection": self.collection,
            "dry_run": self._dry,
            "files": self.files,
            "bytes": self.bytes,
            "ingested": tally.ingested,
            "unchanged": tally.unchanged,
            "removed": tally.deleted,
            "refused": tally.failed + self.unread,
            "chunks": tally.chunks,
            "seconds": round(time.monotonic() - self._began, 3),
            "chunks_per_s": round(self.chunks_per_s, 1),
            "reasons": self._reasons,
        }
        return msgspec.json.encode(found).decode()
