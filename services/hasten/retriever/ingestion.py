"""Takes documents, and rows that make some, from HASTEN_CHANGES and has them applied in the background."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.changes.settings import Changes
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document
from hasten.retriever.applier import Applier
from hasten.retriever.domain import Refused
from hasten.retriever.herald import BUS_ERRORS, Herald
from hasten.retriever.intake import Intake, sequence
from hasten.retriever.library import Library
from hasten.retriever.reading import concerns_documents, read
from hasten.retriever.rows import Emptied, Mail, best_first, steps
from hasten.retriever.settings import Settings
from hasten.retriever.writer import Writer
from hasten.telemetry import logger
from hasten.vectors.store import StoreError

log = logger("retriever")


class Ingestion:
    """Takes messages as there is room for, `batch` at most, and sorts them: documents, rows, and what passes."""

    def __init__(
        self, settings: Settings, bus: Bus, changes: Changes, intake: Intake, library: Library, writer: Writer
    ) -> None:
        self._settings, self._changes = settings, changes
        self._intake, self._library, self._writer = intake, library, writer
        self._herald = Herald(bus)
        self._applier = Applier(settings, intake, library, writer, self._herald)
        self._stopping = self._closed = False
        self._loops: list[asyncio.Task[None]] = []
        self._work: set[asyncio.Task[None]] = set()
        self._taking: asyncio.Task[list[Msg]] | None = None

    async def start(self) -> None:
        """Binds to the stream and begins; raises what the bus or the store does."""
        await self._bind()
        loop = asyncio.get_running_loop()
        self._loops = [loop.create_task(endless()) for endless in (self._run, self._keep, self._follow)]

    async def _bind(self) -> None:
        stream = await self._intake.stream(self._changes.sources)
        if self._library.empty:
            await self._intake.forget()
        await self._library.adopt(stream)
        await self._intake.bind()

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._take()
            except Exception as error:
                log.warning("the stream of documents cannot be read: %s", type(error).__name__)
                await self._work_ends()
                await asyncio.sleep(self._settings.retry_s)
                await self._rebind()
        await self._work_ends()

    async def _rebind(self) -> None:
        try:
            await self._bind()
        except (*BUS_ERRORS, StoreError, Failed) as error:
            log.warning("the stream of documents cannot be bound: %s", type(error).__name__)

    async def _work_ends(self) -> None:
        if self._work:
            await asyncio.wait(self._work)

    async def _follow(self) -> None:
        """Keeps up with how far all replicas have come."""
        while not self._closed:
            await asyncio.sleep(self._settings.poll_s)
            await self._intake.note()

    async def _keep(self) -> None:
        """Keeps what is being worked on, however long it takes."""
        while not self._closed:
            await asyncio.sleep(self._intake.keep_s)
            await self._intake.keep()

    async def _take(self) -> None:
        """Takes what there is room for. What makes no document passes; documents are worked on in the background."""
        if (room := self._settings.batch - self._intake.holding) <= 0:
            await asyncio.wait(self._work, return_when=asyncio.FIRST_COMPLETED)
            return
        mails: list[tuple[Mail, Msg]] = []
        others: list[Msg] = []
        for msg in await self._taken(room):
            if not concerns_documents(msg.subject):
                self._sort(msg, mails, others)
            elif (mail := await self._read(msg)) is not None:
                mails.append((mail, msg))
        for versions in by_document(mails):
            self._begin(self._applier.versions(versions))
        if others:
            await self._intake.passed(others)
            await self._intake.note()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _sort(self, msg: Msg, mails: list[tuple[Mail, Msg]], others: list[Msg]) -> None:
        """Puts a change event where it belongs: to the versions of documents, or to what passes; begins the rest."""
        todo: list[Mail | Emptied] = []
        if self._changes.rules.makes_documents:
            found = steps(msg.subject, msg.headers or {}, msg.data, sequence(msg), self._changes.rules)
            todo = found.todo
            for reason in found.refused:
                self._herald.buried(msg, reason)
        for step in todo:
            if isinstance(step, Mail):
                self._applier.hide(step)
        if len(todo) == 1 and isinstance(todo[0], Mail):
            mails.append((todo[0], msg))
        elif todo:
            self._begin(self._applier.several(todo, msg))
        else:
            others.append(msg)

    async def _taken(self, room: int) -> list[Msg]:
        """The next messages; none when a drain begins while it waits for them."""
        self._taking = asyncio.get_running_loop().create_task(self._intake.take(room))
        try:
            return await self._taking
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return []

    async def _read(self, msg: Msg) -> Mail | None:
        try:
            mail = read(msg.subject, msg.data, sequence(msg))
        except Refused as error:
            await self._applier.refuse(msg, None, Document(id=""), str(error))
            return None
        self._applier.hide(mail)
        return mail

    async def drain(self) -> None:
        """Takes no more, finishes what has begun and gives the rest back."""
        await self._take_no_more()
        if self._loops:
            await asyncio.wait(self._loops[:1])

    async def _take_no_more(self) -> None:
        self._stopping = self._applier.stopping = True
        if self._taking is not None:
            if self._intake.idle:
                self._taking.cancel()
            await asyncio.wait({self._taking})
        await self._intake.stop()

    async def close(self) -> None:
        """Ends what is left; it is delivered again, here or elsewhere.

        The loops look at the flags besides being cancelled: `asyncio.wait_for`, which nats-py waits with, loses a
        cancellation that comes together with what it waits for (Python 3.11).
        """
        self._closed = True
        await self._take_no_more()
        tasks = {*self._loops, *self._work}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._herald.close()
        await self._intake.close()
        self._writer.close()


def by_document(mails: list[tuple[Mail, Msg]]) -> list[list[tuple[Mail, Msg]]]:
    """The messages by document, in the order of the stream; those of one document in the order to apply them."""
    found: dict[str, list[tuple[Mail, Msg]]] = {}
    for mail, msg in sorted(mails, key=lambda one: one[0].sequence):
        found.setdefault(mail.key.id, []).append((mail, msg))
    made: list[list[tuple[Mail, Msg]]] = []
    for versions in found.values():
        msgs = {mail.sequence: msg for mail, msg in versions}
        made.append([(mail, msgs[mail.sequence]) for mail in best_first([mail for mail, _ in versions])])
    return made
