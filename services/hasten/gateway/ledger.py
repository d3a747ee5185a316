"""Writes down the answers that are streamed and reads them again: one stream in JetStream's memory for all gateways.

Entries are published and not waited for: what is lost with a gateway, its orchestrator still has.
"""

import asyncio
import contextlib
import json

import nats.errors
from nats.aio.msg import Msg
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import APIError

from hasten.bus import Bus
from hasten.codec import decode
from hasten.gateway.record import Record
from hasten.messages.failure import Failed
from hasten.messages.streamed import STREAM, STREAMED, Streamed
from hasten.telemetry import logger

log = logger("gateway")
MAX_BYTES = 256 * 1024 * 1024
BATCH = 1000
READ_S = 5.0


class Ledger:
    """The stream. `kept_s` is how long an entry is kept; with 0 nothing is written down."""

    def __init__(self, bus: Bus, kept_s: float) -> None:
        self._bus, self._kept_s = bus, kept_s
        self._made: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Makes the stream, once; without JetStream answers are streamed and not written down."""
        if self._made is None or (self._made.done() and self._made.exception() is not None):
            self._made = asyncio.get_running_loop().create_task(self._make())
        with contextlib.suppress(nats.errors.Error, TimeoutError):
            await asyncio.shield(self._made)

    async def _make(self) -> None:
        if not self._kept_s:
            return
        config = StreamConfig(
            name=STREAM,
            subjects=[STREAMED.pattern],
            storage=StorageType.MEMORY,
            discard=DiscardPolicy.OLD,
            max_bytes=MAX_BYTES,
            max_age=self._kept_s,
            allow_direct=True,
        )
        try:
            await self._bus.js.add_stream(config)
        except APIError:
            await self._bus.js.update_stream(config)
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("streamed answers cannot be written down: %s", type(error).__name__)
            raise

    async def write(self, tenant: str, request_id: str, entry: Streamed) -> None:
        """Publishes an entry, if that can be done now; one that is too large is left out."""
        if self._kept_s:
            with contextlib.suppress(nats.errors.Error, Failed):
                await self._bus.publish(STREAMED, entry, tenant=tenant, request_id=request_id)

    async def read(self, tenant: str, request_id: str) -> Record:
        """The record of an answer, empty when there is none; raises Failed(unavailable)."""
        subject = STREAMED.subject(tenant=tenant, request_id=request_id)
        if not self._kept_s:
            return Record()
        await self.start()
        arrived: asyncio.Queue[Msg] = asyncio.Queue()

        async def receive(msg: Msg) -> None:
            arrived.put_nowait(msg)

        inbox = self._bus.client.new_inbox()
        subscription = await self._bus.subscribe(inbox, receive)
        entries: list[Streamed] = []
        try:
            async with asyncio.timeout(READ_S):
                last = 0
                while (last := await self._batch(subject, last + 1, inbox, arrived, entries)) >= 0:
                    pass
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"what was streamed cannot be read ({type(error).__name__})") from None
        finally:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()
        return Record(entries)

    async def _batch(
        self, subject: str, start: int, inbox: str, arrived: asyncio.Queue[Msg], entries: list[Streamed]
    ) -> int:
        """Reads entries from a sequence on; returns the last one's, -1 when there are no more."""
        asked = json.dumps({"batch": BATCH, "seq": start, "next_by_subj": subject}).encode()
        await self._bus.client.publish(f"$JS.API.DIRECT.GET.{STREAM}", asked, reply=inbox)
        last = -1
        while True:
            msg = await arrived.get()
            headers = msg.headers or {}
            status = headers.get("Status")
            if status is None:
                last = int(headers["Nats-Sequence"])
                with contextlib.suppress(Failed):
                    entries.append(decode(Streamed, msg.data))
            elif status == "204":
                return last if int(headers.get("Nats-Num-Pending", "0")) else -1
            elif status == "404":
                return -1
            else:
                raise nats.errors.NoRespondersError
