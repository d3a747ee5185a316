"""Looks whether the process of a replica is still there: the server knows who hears the replica's own subject."""

import contextlib
from collections.abc import Callable

import nats.errors
from nats.aio.client import Client

Watch = Callable[[Callable[[], None]], tuple[str, Callable[[], None]]]


class Lookout:
    """Calls `gone` when a replica of the service is looked for whose process has ended.

    `watch` gives a reply subject on which the server says that nobody hears, and what forgets it (`Bus.watch_reader`).
    """

    def __init__(self, service: str, client: Client, watch: Watch, gone: Callable[[], None]) -> None:
        self._service, self._client, self._watch, self._gone = service, client, watch, gone
        self._watched: tuple[str, Callable[[], None]] | None = None

    async def look(self, replica: str) -> None:
        """Asks the server for the replica; its process is there as long as `gone` is not called."""
        self._watched = self._watched or self._watch(self._gone)
        with contextlib.suppress(nats.errors.Error):
            await self._client.publish(f"$SRV.PING.{self._service}.{replica}", b"", self._watched[0])

    def stop(self) -> None:
        """Forgets the answer that may still come."""
        if self._watched is not None:
            self._watched[1]()
