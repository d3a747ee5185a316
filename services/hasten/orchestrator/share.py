"""One flight's part in what the replicas share: it leads under a lease, follows another replica, or goes alone."""

import asyncio
from collections.abc import Coroutine

from hasten.orchestrator.flight import Flight, Flights
from hasten.orchestrator.lease import Lease, Leases
from hasten.orchestrator.timeline import Outcome


class Share:
    """The lease of one flight. Without a `key` there is nothing to share; with `held` the lease is there already.

    A claim is finished whatever becomes of the flight, so that no lease is left behind; `end` releases it.
    """

    def __init__(self, leases: Leases, flights: Flights, flight: Flight, key: str, held: Lease | None = None) -> None:
        self._leases, self._flights, self._flight, self._key = leases, flights, flight, key
        self._task: asyncio.Task[Lease | None] | None = None
        self._ended = False
        self._kept = held is not None
        if held is not None:
            self._begin(_given(held))

    async def led(self) -> Lease | None:
        """The lease of a replica that generates for its readers already; nothing is claimed."""
        lease = await self._leases.look(self._key) if self._key and self._task is None else None
        if lease is None or not lease.word.leader or lease.word.quiet:
            return None
        self._flight.timeline.begin("lease").end(*_said(lease))
        return lease

    async def claim(self) -> Lease | None:
        """A lease of ours, or that of the replica to follow; None to go alone."""
        if self._task is None and self._key and not self._ended:
            self._begin(self._leases.claim(self._key))
        if self._task is None:
            return None
        with self._flight.timeline.begin("lease") as mark:
            lease = await asyncio.shield(self._task)
            mark.end(*_said(lease))
        return lease

    async def take(self, lease: Lease) -> Lease | None:
        """The same in place of a leader that is lost."""
        self._begin(self._leases.take(lease))
        return await self.claim()

    def _begin(self, claiming: Coroutine[None, None, Lease | None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._lead(claiming))

    async def _lead(self, claiming: Coroutine[None, None, Lease | None]) -> Lease | None:
        with self._flights.claiming(self._key):
            lease = await claiming
            if lease is not None and lease.held:
                self._flights.lead(self._key, self._flight)
                self._leases.count("led")
            return lease

    def follows(self) -> None:
        """Counts that this flight reads along with another replica's."""
        self._leases.count("followed")

    def end(self, *, stored: bool) -> None:
        """Releases the lease if this flight has it, as soon as that is known; nothing is claimed from now on, although
        whoever was about to may not have heard that it was cancelled (see `hasten.cancellation.cancelled`)."""
        self._ended = True

        def release(task: asyncio.Task[Lease | None]) -> None:
            lease = None if task.cancelled() else task.result()
            if lease is not None and lease.held:
                self._flights.landed(self._key, self._flight)
                self._leases.release(lease, kept=self._kept or stored, stored=stored)

        if self._task is not None:
            self._task.add_done_callback(release)


def _said(lease: Lease | None) -> tuple[Outcome, str]:
    if lease is None:
        return "failed", "generations are not shared between replicas now"
    return "ran", "this replica generates" if lease.held else "another replica generates"


async def _given(lease: Lease) -> Lease:
    return lease
