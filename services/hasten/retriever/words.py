"""Gives chunks from before the search by words their terms; until all have them, questions are answered by vectors."""

import asyncio
from typing import Any

from hasten.retriever.bm25 import VERSION, document_terms
from hasten.retriever.records import embedded_text
from hasten.telemetry import logger
from hasten.vectors.store import Point, StoreError, Terms, VectorStore, Where

log = logger("retriever")
PAGE = 64
AGAIN_S = 5.0
LACKING = Where(equal={"kind": "chunk"}, unequal={"terms_version": VERSION})
"""The chunks without terms, or with those of another version."""


class Words:
    """Whether the chunks of an opened store can be searched by words."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._mending: asyncio.Task[None] | None = None
        self.lacking = 0
        """Chunks that cannot be found by words yet, when they were last counted."""

    @property
    def ready(self) -> bool:
        """Whether every chunk can be found by words."""
        return not self.lacking

    async def count(self) -> None:
        """Counts the chunks that lack terms, and begins to mend them if there are any. Raises StoreError."""
        self.lacking = await self._store.count(LACKING)
        if self.lacking and self._mending is None:
            log.warning(
                "%d chunks cannot be found by words yet: they are being given their terms, and until all have them "
                "every question is answered by vectors alone",
                self.lacking,
            )
            self._mending = asyncio.get_running_loop().create_task(self._mend())
            self._mending.add_done_callback(self._mended)

    async def _mend(self) -> None:
        """Goes on until none is left; several replicas may do it at once, with the same result."""
        while self.lacking:
            try:
                found = await self._store.scroll(LACKING, PAGE)
                await self._give(found)
                self.lacking = await self._store.count(LACKING) if found else 0
            except StoreError as error:
                log.warning("chunks could not be given their terms, which is tried again: %s", error)
                await asyncio.sleep(AGAIN_S)
        log.warning("every chunk can be found by words")

    async def _give(self, found: list[Point]) -> None:
        """The terms come first: what is marked has them."""
        titles = await self._titles({point.payload["key"] for point in found})
        terms = await asyncio.to_thread(lambda: {point.id: _terms_of(point.payload, titles) for point in found})
        await self._store.set_terms(terms)
        await self._store.set_payload(list(terms), {"terms_version": VERSION})

    async def _titles(self, keys: set[str]) -> dict[tuple[str, int], str]:
        manifests = await self._store.scroll(Where(equal={"kind": "manifest", "key": sorted(keys)}), 16 * PAGE)
        return {(point.payload["key"], point.payload["version"]): point.payload.get("title", "") for point in manifests}

    def _mended(self, task: asyncio.Task[None]) -> None:
        self._mending = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("giving chunks their terms ended (%s); it is tried again", type(error).__name__)

    async def close(self) -> None:
        """Stops mending; the next start goes on with it."""
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.wait({self._mending})


def _terms_of(payload: dict[str, Any], titles: dict[tuple[str, int], str]) -> Terms:
    """Those of its passage: a chunk's own text is not kept, and what is returned is the passage."""
    title = titles.get((payload["key"], payload["version"]), "")
    return document_terms(embedded_text(title, payload["heading"], payload["text"]))
