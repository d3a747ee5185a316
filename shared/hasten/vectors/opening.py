"""Chooses the adapter by address; nothing else in hasten knows which one it uses."""

import warnings
from pathlib import Path

from hasten.topics import checked
from hasten.vectors.store import StoreError, VectorStore

REQUEST_TIMEOUT_S = 10


def store(url: str, data: Path, collection: str, *, api_key: str | None = None) -> VectorStore:
    """A store that still has to be opened.

    `url` is empty or `embedded` for the engine in this process, on the folder vectors/<collection> of `data`;
    `http(s)://host:port` for a Qdrant server; `:memory:` for qdrant-client's own imitation, for small tests. Raises
    StoreError for any other address and for a missing package, BadName for a bad collection name.
    """
    checked("collection", collection)
    if url in ("", "embedded"):
        from hasten.vectors.edge import EdgeStore

        return EdgeStore(data / "vectors" / collection)
    if url != ":memory:" and not url.startswith(("http://", "https://")):
        raise StoreError("the vector store must be 'embedded' or the http(s) address of a Qdrant server")
    from qdrant_client import AsyncQdrantClient

    from hasten.vectors.server import ServerStore

    if url == ":memory:":
        warnings.filterwarnings("ignore", "Local mode performs exact|Payload indexes have no effect", UserWarning)
        return ServerStore(AsyncQdrantClient(location=url), collection)
    client = AsyncQdrantClient(url=url, api_key=api_key, timeout=REQUEST_TIMEOUT_S, check_compatibility=False)
    return ServerStore(client, collection)
