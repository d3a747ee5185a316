"""Takes documents, and rows that make some, from HASTEN_CHANGES and has them applied; says when they can be found."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.changes.settings import Changes
from hasten.dead_letters import DeadLetters
from hasten.messages.change import CHANGE, TENANT_CHANGE, Change
from hasten.messages.failure import Failed
from hasten.messages.retrieve import INGESTED, Document, Ingested
from hasten.retriever.domain import Refused, Unfit
from hasten.retriever.embedding import PASSING
from hasten.retriever.intake import Intake, sequence
from hasten.retriever.library import Library
from hasten.retriever.reading import address, concerns_documents, read
from hasten.retriever.records import Key, Manifest
from hasten.retriever.rows import Emptied, Mail, best_first, steps
from hasten.retriever.settings import Settings
from hasten.retriever.writer import Writer
from hasten.telemetry import counter, gauge, histogram, logger
from hasten.vectors.store import StoreError

log = logger("retriever")
_documents = counter("retriever_documents_total", "Document messages, by what became of them", "op", "outcome")
_seconds = histogram("retriever_apply_seconds", "Time to apply one document message")
_lag = gauge("retriever_lag", "Messages of the stream that have not been applied")
CLEAR_S = 1.0
"""How long a version that lacks columns waits here for those before it, until it is given back."""
NOBODY = Key("", "", "")
"""In place of a document, when all of a table are meant."""
BUS_ERRORS = (nats.errors.Error, TimeoutError)


class Ingestion:
    """Takes messages as there is room for and applies the documents among them, `parallel` at once."""

    def __init__(
        self, settings: Settings, bus: Bus, changes: Changes, intake: Intake, library: Library, writer: Writer
    ) -> None:
        self._settings, self._bus, self._changes = settings, bus, changes
        self._letters = DeadLetters(bus)
        self._intake, self._library, self._writer = intake, library, writer
        self._places = asyncio.Semaphore(settings.parallel)
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
            await self._refresh()

    async def _keep(self) -> None:
        """Keeps what is being worked on, however long it takes."""
        while not self._closed:
            await asyncio.sleep(self._intake.keep_s)
            await self._intake.keep()

    async def _refresh(self) -> None:
        try:
            await self._intake.refresh()
            _lag.set(self._intake.lag)
        except BUS_ERRORS as error:
            log.debug("how far the consumer is cannot be asked: %s", type(error).__name__)

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
            self._begin(self._versions(versions))
        if others:
            await self._intake.passed(others)
            await self._refresh()

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
                self._bury(msg, reason)
        for step in todo:
            if isinstance(step, Mail):
                self._hide(step)
        if len(todo) == 1 and isinstance(todo[0], Mail):
            mails.append((todo[0], msg))
        elif todo:
            self._begin(self._several(todo, msg))
        else:
            others.append(msg)

    def _bury(self, msg: Msg, reason: str) -> None:
        _documents.labels("row", "refused").inc()
        self._letters.post(sequence(msg), msg.subject, reason, len(msg.data), "document")

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
            await self._refuse(msg, None, Document(id=""), str(error))
            return None
        self._hide(mail)
        return mail

    def _hide(self, mail: Mail) -> None:
        """Hides what is deleted from now on; a deletion that may turn out to be an old one hides nothing before."""
        if mail.document.op == "delete" and (mail.row is None or mail.row.at is None):
            self._library.hidden[mail.key.id] = max(mail.sequence, self._library.hidden.get(mail.key.id, 0))

    async def _versions(self, versions: list[tuple[Mail, Msg]]) -> None:
        """Applies versions of one document, first the one that stays: the check of versions then skips the others."""
        for mail, msg in versions:
            if mail.partial and not await self._clear(mail.sequence):
                await self._return(msg, self._settings.retry_s)
                continue
            async with self._places:
                if self._stopping:
                    await self._return(msg, 0.0)
                else:
                    await self._one(mail, msg)

    async def _return(self, msg: Msg, delay_s: float) -> None:
        with contextlib.suppress(*BUS_ERRORS):
            await self._intake.again(msg, delay_s)

    async def _clear(self, before: int) -> bool:
        """Waits a moment until everything before a message has been applied: what it is completed from is known then.

        Not for long, because what it waits for may need its place here.
        """
        give_up = time.monotonic() + CLEAR_S
        while not self._intake.clear_before(before):
            if self._stopping or time.monotonic() > give_up:
                return False
            await asyncio.sleep(CLEAR_S / 50)
            await self._refresh()
        return True

    async def _several(self, todo: list[Mail | Emptied], msg: Msg) -> None:
        """Applies what one message does to several documents; it is done when all of it is."""
        at = sequence(msg)
        for step in todo:
            try:
                if isinstance(step, Mail) and step.partial and not await self._clear(at):
                    raise TimeoutError
                async with self._places:
                    await self._step(step, msg)
            except Refused as error:
                self._bury(msg, str(error))  # the other documents of the message are made all the same
            except Exception as error:
                mail = step if isinstance(step, Mail) else Mail(NOBODY, at, Document(id="", op="delete"))
                with contextlib.suppress(*BUS_ERRORS, StoreError):
                    await self._failed(mail, msg, error)
                return
        with contextlib.suppress(*BUS_ERRORS, Failed):
            await self._done(todo, msg)
        await self._refresh()

    async def _step(self, step: Mail | Emptied, msg: Msg) -> None:
        if isinstance(step, Emptied):
            await self._library.empty_table(step.origin, sequence(msg))
            _documents.labels("truncate", "applied").inc()
        else:
            await self._announce(step, await self._applied(step, msg))

    async def _done(self, steps: Sequence[Mail | Emptied], msg: Msg) -> None:
        """Says that a message has been applied. Answers that were made of what was there before, but after others took
        it for applied, are evicted once more."""
        if await self._intake.overtaken(msg):
            for step in steps:
                await self._evict(step)
        await self._intake.done(msg)

    async def _evict(self, step: Mail | Emptied) -> None:
        if isinstance(step, Emptied):
            table = Change(tags=[step.origin, step.origin.rpartition(".")[2]], reason="applied late")
            await self._bus.store(CHANGE, table, source="retriever")
        else:
            tags = [f"document:{step.key.collection}/{step.key.document}", f"collection:{step.key.collection}"]
            await self._bus.store(TENANT_CHANGE, Change(tags=tags, reason="applied late"), tenant=step.key.tenant)

    async def _one(self, mail: Mail, msg: Msg) -> None:
        """Applies a document and says so; gives the message back, or up, when it could not be applied."""
        try:
            manifest = await self._applied(mail, msg)
            await self._done([mail], msg)
        except Exception as error:
            with contextlib.suppress(*BUS_ERRORS, StoreError):
                await self._failed(mail, msg, error)
            return
        await self._refresh()
        await self._announce(mail, manifest)

    async def _applied(self, mail: Mail, msg: Msg) -> Manifest:
        with _seconds.time():
            try:
                manifest = await self._writer.apply(mail)
            except Unfit as error:
                if mail.row is None:
                    raise  # whoever published it is told, and may keep the version before
                self._bury(msg, str(error))
                manifest = await self._writer.apply(mail.deletion)
        if self._library.hidden.get(mail.key.id) == mail.sequence:
            del self._library.hidden[mail.key.id]
        return manifest

    async def _announce(self, mail: Mail, manifest: Manifest) -> None:
        op, outcome = mail.document.op, "applied" if manifest.version == mail.sequence else "superseded"
        _documents.labels(op, outcome).inc()
        event = Ingested(
            collection=mail.key.collection,
            id=mail.key.document,
            sequence=mail.sequence,
            op=op,
            chunks=manifest.chunks,
        )
        await self._say(mail.key, event)

    async def _failed(self, mail: Mail, msg: Msg, error: Exception) -> None:
        tries = msg.metadata.num_delivered or 1
        reason = final(error, tries, self._settings.attempts)
        if reason is None:
            _documents.labels(mail.document.op, "retried").inc()
            log.info("document message %d is tried again: %s", mail.sequence, type(error).__name__)
            delay_s = self._settings.retry_s * 2.0 ** min(tries - 1, 16)
            await self._intake.again(msg, min(delay_s, self._settings.retry_max_s))
        else:
            await self._library.discard(mail.key, mail.sequence)
            if mail.row is not None:
                self._bury(msg, reason)
                if not isinstance(error, Refused):  # else the row may be as the version before says
                    await self._writer.apply(mail.deletion)
            await self._refuse(msg, mail.key, mail.document, reason)

    async def _refuse(self, msg: Msg, key: Key | None, document: Document, reason: str) -> None:
        """Gives a message up for good and says why to the tenant, if that is known; the log has the number only."""
        log.warning("document message %d was refused", sequence(msg))
        _documents.labels(document.op, "refused").inc()
        at = sequence(msg)
        await self._intake.refuse(msg)
        with contextlib.suppress(Refused):
            key = key or address(msg.subject)
            await self._say(
                key, Ingested(collection=key.collection, id=document.id, sequence=at, op=document.op, error=reason)
            )

    async def _say(self, key: Key, event: Ingested) -> None:
        with contextlib.suppress(*BUS_ERRORS, Failed):
            await self._bus.publish(INGESTED, event, tenant=key.tenant)

    async def drain(self) -> None:
        """Takes no more, finishes what has begun and gives the rest back."""
        await self._take_no_more()
        if self._loops:
            await asyncio.wait(self._loops[:1])

    async def _take_no_more(self) -> None:
        self._stopping = True
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
        await self._letters.close()
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


def final(error: Exception, tries: int, attempts: int) -> str | None:
    """Why a document is given up; None when the failure passes with time, or may."""
    if isinstance(error, Refused):
        return str(error)
    passing = isinstance(error, Failed) and error.failure.code in PASSING
    if passing or isinstance(error, (StoreError, *BUS_ERRORS)) or tries < attempts:
        return None
    return f"it could not be indexed ({error.failure.code if isinstance(error, Failed) else type(error).__name__})"
