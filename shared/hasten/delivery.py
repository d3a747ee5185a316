"""Brings documents into a collection: only what is new, a bounded number on the way, each followed until it is there.

What the collection holds is asked of the retriever and not kept beside it, so a run that was interrupted goes on where
it was, from whatever machine.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Any

import msgspec

from hasten.client import Hasten
from hasten.messages.failure import RETRYABLE, Failed
from hasten.messages.retrieve import Document, DocumentList, Ingested
from hasten.topics import random_id

WINDOW = 64
"""Documents on the way: twice what the retriever takes at a time, so that it never waits; after an interruption they
may be indexed again."""
BATCH, BATCH_CHARS = 64, 4 * 1024 * 1024
LOOK_S = 5.0
"""How long the word that a document was applied is waited for until the retriever is asked: it may have been lost."""
PAUSE_S = 0.5
PATIENCE_S = 10.0
"""How long a retriever that has never answered is waited for."""
PASSING = RETRYABLE | {"deadline"}


class Tally(msgspec.Struct, kw_only=True):
    """What has become of the documents so far. `unchanged` ones were there already; `failed` ones were refused."""

    ingested: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    chunks: int = 0

    @property
    def done(self) -> int:
        """Documents that nothing more has to be done for."""
        return self.ingested + self.unchanged + self.failed


class Delivery:
    """One run into one collection. `refused` is told a sentence for each document that cannot be taken.

    `again` sends also what is there already; `dry` sends nothing and counts what would be sent. Methods raise Failed
    when no retriever answers, and after `patience_s` in which nothing has moved if that is given.
    """

    def __init__(
        self,
        hasten: Hasten,
        collection: str,
        *,
        refused: Callable[[str], None],
        again: bool = False,
        dry: bool = False,
        patience_s: float | None = None,
    ) -> None:
        self._hasten, self._collection, self._refused = hasten, collection, refused
        self._again, self._dry, self._patience_s = again, dry, patience_s
        self._batch: list[tuple[str, Document]] = []
        self._seen: set[int] = set()
        self._places = asyncio.Semaphore(WINDOW)
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone: BaseException | None = None
        self._moved, self._answered = time.monotonic(), False
        self.tally = Tally()
        self.waits_for = ""

    @property
    def on_the_way(self) -> int:
        """Documents that have been sent and are not there yet."""
        return len(self._tasks)

    async def offer(self, document: Document, place: str) -> None:
        """Takes a document that was read at `place`; waits while too many are on the way."""
        if not self._first(document.id):
            self._refuse(f"{place}: another document in this run has its id {document.id!r}: rename one of them")
            return
        self._batch.append((place, document))
        if len(self._batch) >= BATCH or sum(len(one.text) for _, one in self._batch) > BATCH_CHARS:
            await self._sift()

    def _first(self, name: str) -> bool:
        """Whether no document of this id was here before, by 8 bytes each."""
        mark, before = _mark(name), len(self._seen)
        self._seen.add(mark)
        return len(self._seen) > before

    def _refuse(self, why: str) -> None:
        self.tally.failed += 1
        self._refused(why)

    async def finish(self) -> None:
        """Returns when everything that was offered is there, or refused."""
        await self._sift()
        self._check()
        while self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self._check()
        self._check()

    async def cancel(self) -> None:
        """Waits for nothing more; what was sent is indexed all the same."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check(self) -> None:
        if self._gone is not None:
            raise self._gone

    async def _sift(self) -> None:
        """Sends those of a batch that the collection does not hold as they are."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        known: dict[str, str] = {}
        if not self._again:
            found = await self._ask(ids=[document.id for _, document in batch])
            known = {one.id: one.digest for one in found.documents}
        for place, document in batch:
            if known.get(document.id) == document.digest:
                self.tally.unchanged += 1
                self._moved = time.monotonic()
            elif self._dry:
                self.tally.ingested += 1
            else:
                await self._begin(place, document)

    async def _begin(self, place: str, document: Document) -> None:
        await self._places.acquire()
        self._check()
        task = asyncio.get_running_loop().create_task(self._one(place, document))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._places.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._gone = error

    async def _one(self, place: str, document: Document) -> None:
        try:
            event = await self._settled(document, await self._stored(document))
        except Failed as failed:
            if failed.failure.code != "too_large":
                raise
            event = Ingested(collection=self._collection, id=document.id, sequence=0, error=_too_large(failed))
        self._moved, self.waits_for = time.monotonic(), ""
        if event.error is not None:
            self._refuse(f"{place}: {event.error}")
        elif document.op == "delete":
            self.tally.deleted += 1
        else:
            self.tally.ingested += 1
            self.tally.chunks += event.chunks

    async def _stored(self, document: Document) -> int:
        """Stores a document once, however often that has to be tried."""
        message_id = random_id()
        while True:
            try:
                return await self._hasten.store(self._collection, document, message_id=message_id)
            except Failed as failed:
                if failed.failure.code not in PASSING:
                    raise
                await self._pause("NATS", failed)

    async def _pause(self, whom: str, failed: Failed) -> None:
        self.waits_for = whom
        self._stalled(failed.failure.detail)
        await asyncio.sleep(PAUSE_S)

    def _stalled(self, why: str) -> None:
        """Raises Failed when nothing has moved for longer than whoever runs this wants to wait."""
        if self._patience_s is not None and time.monotonic() - self._moved > self._patience_s:
            raise Failed("deadline", f"nothing has moved for {self._patience_s:g} s ({why}): run it again to go on")

    async def _settled(self, document: Document, sequence: int) -> Ingested:
        """What became of a stored document; asks for it when the word of that does not come."""
        word = asyncio.ensure_future(self._hasten.applied(sequence))
        try:
            while True:
                if (await asyncio.wait({word}, timeout=LOOK_S))[0]:
                    return word.result()
                if (event := await self._looked_for(document, sequence)) is not None:
                    return word.result() if word.done() else event
                self.waits_for = "the retriever"
                self._stalled("is an embedder running? `hasten status` says")
        finally:
            word.cancel()

    async def _looked_for(self, document: Document, sequence: int) -> Ingested | None:
        found = await self._ask(ids=[document.id])
        event = Ingested(collection=self._collection, id=document.id, sequence=sequence)
        for one in found.documents:
            if one.version >= sequence and document.op == "upsert":
                return msgspec.structs.replace(event, chunks=one.chunks)
        if found.read_seq < sequence:
            return None
        if document.op == "delete":
            return event
        return msgspec.structs.replace(event, error="it was refused, and the reason was lost: run it again to hear it")

    async def _ask(self, **what: Any) -> DocumentList:
        """Asks the retriever until it answers."""
        began = time.monotonic()
        while True:
            try:
                found = await self._hasten.documents(self._collection, **what)
            except Failed as failed:
                waited_s = time.monotonic() - began
                if failed.failure.code not in PASSING or (not self._answered and waited_s > PATIENCE_S):
                    raise
                await self._pause("a retriever", failed)
            else:
                self._answered, self.waits_for = True, ""
                return found

    async def prune(self, source: str) -> None:
        """Deletes what came from a source in an earlier run and was not offered in this one."""
        after: int | None = 0
        while after is not None:
            page = await self._ask(source=source, after=after)
            for one in page.documents:
                if _mark(one.id) in self._seen:
                    continue
                if self._dry:
                    self.tally.deleted += 1
                else:
                    await self._begin(one.id, Document(id=one.id, op="delete"))
            after = page.next
        await self.finish()


def _mark(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _too_large(failed: Failed) -> str:
    return f"{failed.failure.detail}: split the file, or raise max_payload of the NATS server"
