"""Says which documents are there, so that whoever brings them again brings only what is new."""

from hasten.messages.failure import Failed
from hasten.messages.retrieve import DocumentInfo, DocumentList, Documents
from hasten.retriever.library import Library
from hasten.retriever.records import SLOTS, Key, Manifest, source_where
from hasten.topics import BadName, checked
from hasten.vectors.store import Point, StoreError

MAX_IDS = 256
PAGE = 256
"""Documents of one reply: with ids of the longest kind it stays within a message of 1 MB."""


class Catalogue:
    """Reads the manifests of a library. Raises Failed for what cannot be asked, and while the store is away."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def answer(self, body: Documents, tenant: str, read_seq: int) -> DocumentList:
        """The documents asked for that can be found, or a page of those from a source."""
        try:
            checked("collection", body.collection)
        except BadName as error:
            raise Failed("bad_request", str(error), param="collection") from None
        if len(body.ids) > MAX_IDS:
            raise Failed("bad_request", f"{len(body.ids)} ids, at most {MAX_IDS} are taken", param="ids")
        if not body.ids and not body.source:
            raise Failed("bad_request", "name the ids to look for, or the source to list", param="ids")
        try:
            return await self._answer(body, tenant, read_seq)
        except StoreError as error:
            raise Failed("unavailable", str(error), retry_after_ms=1000) from None

    async def _answer(self, body: Documents, tenant: str, read_seq: int) -> DocumentList:
        if body.ids:
            names = {Key(tenant, body.collection, name).id: name for name in body.ids}
            return DocumentList(documents=infos(names, await self._library.known(set(names))), read_seq=read_seq)
        found, upto = await self._page(body, tenant)
        names = {point.payload["key"]: point.payload["document"] for point in found}
        manifests = await self._library.known(set(names))
        here = {key: manifest for key, manifest in manifests.items() if manifest.source == body.source}
        return DocumentList(documents=infos(names, here), read_seq=read_seq, next=upto if upto < SLOTS else None)

    async def _page(self, body: Documents, tenant: str) -> tuple[list[Point], int]:
        """All manifests in a stretch of slots that begins at `after` and is as long as a page allows."""
        after = min(max(body.after, 0), SLOTS)
        width = SLOTS - after
        while True:
            where = source_where(tenant, body.collection, body.source, after - 1, after + width)
            found = await self._library.listed(where, PAGE + 1)
            if len(found) <= PAGE or width == 1:
                return found, after + width
            width = max(1, width // 4)


def infos(names: dict[str, str], manifests: dict[str, Manifest]) -> list[DocumentInfo]:
    """What is said of the documents that are there, by their keys' names."""
    return [
        DocumentInfo(id=names[key], version=one.version, digest=one.digest, chunks=one.chunks)
        for key, one in manifests.items()
        if not one.deleted
    ]
