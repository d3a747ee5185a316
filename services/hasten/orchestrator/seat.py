"""Who reads which flight by request: a reader that was lost finds its answer again for a while."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from hasten.orchestrator.flight import Flight
from hasten.orchestrator.reader import Reader
from hasten.service import Call

MOST = 2048
"""Seats that are kept for readers who have gone; beyond that the oldest is given up."""


class Seat:
    """The place of one reader in a flight, which does not end while it is kept."""

    def __init__(self, flight: Flight, reader: Reader) -> None:
        self.flight, self.reader = flight, reader
        self.left = False
        self._timer: asyncio.TimerHandle | None = None
        flight.join()

    def end_in(self, grace_s: float, end: Any) -> None:
        """Gives it up later."""
        self._timer = asyncio.get_running_loop().call_later(grace_s, end)

    def end(self) -> None:
        """Gives it up."""
        if self._timer is not None:
            self._timer.cancel()
        self.flight.leave()


class Seats:
    """The seats of one replica by tenant and request id, those of absent readers for `grace_s`.

    A reader that said that it has left, or whose deadline has passed, is not waited for; only readers that can come
    back have a seat at all.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._taken: dict[tuple[str, str], Seat] = {}
        self._kept: dict[tuple[str, str], Seat] = {}

    def __len__(self) -> int:
        return len(self._taken) + len(self._kept)

    def find(self, tenant: str, request_id: str) -> Seat | None:
        """The seat of a request, whether or not its reader is thought to be there."""
        key = (tenant, request_id)
        return self._taken.get(key) or self._kept.get(key)

    @contextlib.contextmanager
    def taken(self, call: Call, flight: Flight, reader: Reader) -> Iterator[None]:
        """The seat of a call for as long as it reads this flight, and then for the grace time."""
        if not call.resumable:
            yield
            return
        key, seat = (call.tenant, call.request_id), Seat(flight, reader)
        self._drop(key)
        self._taken[key] = seat
        stays = True
        try:
            yield
        except asyncio.CancelledError:
            stays = call.reason == "disconnected"
            raise
        finally:
            if self._taken.get(key) is seat:
                del self._taken[key]
                stays = stays and not seat.left
                self._keep(key, seat) if stays else seat.end()
            else:
                seat.end()

    def _keep(self, key: tuple[str, str], seat: Seat) -> None:
        self._drop(key)
        self._kept[key] = seat
        seat.end_in(self._grace_s, lambda: self._drop(key))
        if len(self._kept) > MOST:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, str]) -> None:
        if (seat := self._kept.pop(key, None)) is not None:
            seat.end()

    def on_cancel(self, tenant: str, request_id: str) -> None:
        """Nobody waits for this request any more."""
        key = (tenant, request_id)
        self._drop(key)
        if (seat := self._taken.get(key)) is not None:
            seat.left = True

    def close(self) -> None:
        """Gives up what is kept."""
        for key in list(self._kept):
            self._drop(key)
