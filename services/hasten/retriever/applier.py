"""Applies messages that have been taken, and settles them: done, given back to be tried again, or given up."""

import asyncio
import contextlib
import time
from collections.abc import Sequence

from nats.aio.msg import Msg

from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document
from hasten.retriever.domain import Refused, Unfit
from hasten.retriever.embedding import PASSING
from hasten.retriever.herald import BUS_ERRORS, Herald
from hasten.retriever.intake import Intake, sequence
from hasten.retriever.library import Library
from hasten.retriever.records import Key, Manifest
from hasten.retriever.rows import Emptied, Mail
from hasten.retriever.settings import Settings
from hasten.retriever.writer import Writer
from hasten.telemetry import histogram
from hasten.vectors.store import StoreError

_seconds = histogram("retriever_apply_seconds", "Time to apply one document message")
CLEAR_S = 1.0
"""How long a version that lacks columns waits here for those before it, until it is given back."""
NOBODY = Key("", "", "")
"""In place of a document, when all of a table are meant."""


class Applier:
    """Works on messages, on `parallel` documents at once; gives back what has not begun once it is `stopping`."""

    def __init__(self, settings: Settings, intake: Intake, library: Library, writer: Writer, herald: Herald) -> None:
        self._settings, self._intake, self._library = settings, intake, library
        self._writer, self._herald = writer, herald
        self._places = asyncio.Semaphore(settings.parallel)
        self.stopping = False

    def hide(self, mail: Mail) -> None:
        """Hides what is deleted from now on; a deletion that may turn out to be an old one hides nothing before."""
        if mail.document.op == "delete" and (mail.row is None or mail.row.at is None):
            self._library.hidden[mail.key.id] = max(mail.sequence, self._library.hidden.get(mail.key.id, 0))

    async def refuse(self, msg: Msg, key: Key | None, document: Document, reason: str) -> None:
        """Gives a message up for good."""
        await self._intake.refuse(msg)
        await self._herald.refused(msg, key, document, reason)

    async def versions(self, versions: list[tuple[Mail, Msg]]) -> None:
        """Applies versions of one document, first the one that stays: the check of versions then skips the others."""
        for mail, msg in versions:
            if mail.partial and not await self._clear(mail.sequence):
                await self._return(msg, self._settings.retry_s)
                continue
            async with self._places:
                if self.stopping:
                    await self._return(msg, 0.0)
                else:
                    await self._one(mail, msg)

    async def several(self, todo: list[Mail | Emptied], msg: Msg) -> None:
        """Applies what one message does to several documents; it is done when all of it is."""
        at = sequence(msg)
        for step in todo:
            try:
                if isinstance(step, Mail) and step.partial and not await self._clear(at):
                    raise TimeoutError
                async with self._places:
                    await self._step(step, msg)
            except Refused as error:
                self._herald.buried(msg, str(error))  # the other documents of the message are made all the same
            except Exception as error:
                mail = step if isinstance(step, Mail) else Mail(NOBODY, at, Document(id="", op="delete"))
                with contextlib.suppress(*BUS_ERRORS, StoreError):
                    await self._failed(mail, msg, error)
                return
        with contextlib.suppress(*BUS_ERRORS, Failed):
            await self._done(todo, msg)
        await self._intake.note()

    async def _return(self, msg: Msg, delay_s: float) -> None:
        with contextlib.suppress(*BUS_ERRORS):
            await self._intake.again(msg, delay_s)

    async def _clear(self, before: int) -> bool:
        """Waits a moment until everything before a message has been applied: what it is completed from is known then.

        Not for long, because what it waits for may need its place here.
        """
        give_up = time.monotonic() + CLEAR_S
        while not self._intake.clear_before(before):
            if self.stopping or time.monotonic() > give_up:
                return False
            await asyncio.sleep(CLEAR_S / 50)
            await self._intake.note()
        return True

    async def _step(self, step: Mail | Emptied, msg: Msg) -> None:
        if isinstance(step, Emptied):
            await self._library.empty_table(step.origin, sequence(msg))
            self._herald.emptied()
        else:
            await self._herald.applied(step, await self._applied(step, msg))

    async def _one(self, mail: Mail, msg: Msg) -> None:
        """Applies a document and says so; gives the message back, or up, when it could not be applied."""
        try:
            manifest = await self._applied(mail, msg)
            await self._done([mail], msg)
        except Exception as error:
            with contextlib.suppress(*BUS_ERRORS, StoreError):
                await self._failed(mail, msg, error)
            return
        await self._intake.note()
        await self._herald.applied(mail, manifest)

    async def _applied(self, mail: Mail, msg: Msg) -> Manifest:
        with _seconds.time():
            try:
                manifest = await self._writer.apply(mail)
            except Unfit as error:
                if mail.row is None:
                    raise  # whoever published it is told, and may keep the version before
                self._herald.buried(msg, str(error))
                manifest = await self._writer.apply(mail.deletion)
        if self._library.hidden.get(mail.key.id) == mail.sequence:
            del self._library.hidden[mail.key.id]
        return manifest

    async def _done(self, steps: Sequence[Mail | Emptied], msg: Msg) -> None:
        """Says that a message has been applied, behind what others took for applied already."""
        if await self._intake.overtaken(msg):
            for step in steps:
                await self._herald.late(step)
        await self._intake.done(msg)

    async def _failed(self, mail: Mail, msg: Msg, error: Exception) -> None:
        tries = msg.metadata.num_delivered or 1
        reason = final(error, tries, self._settings.attempts)
        if reason is None:
            self._herald.retried(mail, error)
            delay_s = self._settings.retry_s * 2.0 ** min(tries - 1, 16)
            await self._intake.again(msg, min(delay_s, self._settings.retry_max_s))
        else:
            await self._library.discard(mail.key, mail.sequence)
            if mail.row is not None:
                self._herald.buried(msg, reason)
                if not isinstance(error, Refused):  # else the row may be as the version before says
                    await self._writer.apply(mail.deletion)
            await self.refuse(msg, mail.key, mail.document, reason)


def final(error: Exception, tries: int, attempts: int) -> str | None:
    """Why a document is given up; None when the failure passes with time, or may."""
    if isinstance(error, Refused):
        return str(error)
    passing = isinstance(error, Failed) and error.failure.code in PASSING
    if passing or isinstance(error, (StoreError, *BUS_ERRORS)) or tries < attempts:
        return None
    return f"it could not be indexed ({error.failure.code if isinstance(error, Failed) else type(error).__name__})"
