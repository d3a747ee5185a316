"""Decides what may be indexed, which version is current, and which passages a reader gets; pure."""

import re
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from hasten.changes.keys import UNCHANGED
from hasten.messages.chat import Scalar
from hasten.messages.retrieve import Document, Passage
from hasten.retriever.records import Manifest
from hasten.vectors.store import Match, Point, Vector

MAX_ID_CHARS = 512
MAX_ABOUT_BYTES = 16 * 1024
"""The most that a document's title, url, metadata and tags may take: each of its passages carries them."""
MAX_NAME_CHARS = 64
_NAME = re.compile(r"[^\"\\\x00-\x1f\x7f]{1,64}")


class Refused(ValueError):
    """A document or a request that can never be served; the text is one sentence without content."""


class Unfit(Refused):
    """A version of a document that is known and can never be indexed: what was there before is no longer so."""


def check(document: Document) -> None:
    """Raises Refused for a document that must not be indexed, Unfit for what it holds."""
    if not 1 <= len(document.id) <= MAX_ID_CHARS:
        raise Refused(f"the id of a document must have 1 to {MAX_ID_CHARS} characters")
    if UNCHANGED in (document.text.strip(), document.title.strip()):
        raise Refused("the text or title is Debezium's placeholder for a column that did not change")
    if len(document.source) > MAX_ID_CHARS:
        raise Refused(f"the source of a document must have {MAX_ID_CHARS} characters at most")
    about = {name: getattr(document, name) for name in ("title", "url", "tags", "metadata")}
    if (have := len(msgspec.json.encode(about))) > MAX_ABOUT_BYTES:
        raise Unfit(f"title, url, tags and metadata have {have} bytes, at most {MAX_ABOUT_BYTES} are taken")
    try:
        check_filter(document.metadata)
    except Refused as error:
        raise Unfit(str(error)) from None


def check_filter(fields: Mapping[str, Scalar | list[Scalar]]) -> None:
    """Raises Refused for a metadata name or number that the store could not hold."""
    for name, value in fields.items():
        if not _NAME.fullmatch(name):
            raise Refused(f"metadata names have 1 to {MAX_NAME_CHARS} characters, no quotes and no backslashes")
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int) and not -(2**63) <= one < 2**63:
                raise Refused("a number in the metadata does not fit 64 bits")


def belongs(match: Match, tenant: str, collections: list[str]) -> bool:
    """Whether a match is of the tenant and collections asked for, whatever the store's filter did."""
    return match.payload["tenant"] == tenant and match.payload["collection"] in collections


def current(manifests: Iterable[Point]) -> dict[str, Manifest]:
    """The highest version of each document, by key."""
    found: dict[str, Manifest] = {}
    for point in manifests:
        key, manifest = point.payload["key"], msgspec.convert(point.payload, Manifest)
        if key not in found or found[key].version < manifest.version:
            found[key] = manifest
    return found


def without(manifests: Mapping[str, Manifest], hidden: Mapping[str, int]) -> dict[str, Manifest]:
    """The manifests with the deletions applied that are not in the store yet: `hidden` has their versions by key."""
    gone = {
        key: Manifest(version=version, deleted=True)
        for key, version in hidden.items()
        if key in manifests and manifests[key].version < version
    }
    return {**manifests, **gone}


def overtaken(matches: list[Match], manifests: Mapping[str, Manifest], known: Mapping[str, Manifest]) -> bool:
    """Whether a document was replaced while the search ran, so that its new version may be missing from the matches.

    `known` are the manifests that had been read before the search began.
    """
    return any(
        manifest.version > match.payload["version"] and not manifest.deleted and manifest != known.get(key)
        for match in matches
        if (manifest := manifests.get(key := match.payload["key"])) is not None
    )


def passages(matches: list[Match], manifests: Mapping[str, Manifest]) -> list[Passage]:
    """The passages of the current versions, best first, each once with its best chunk's score."""
    found: dict[tuple[str, int], Passage] = {}
    for match in matches:
        payload = match.payload
        manifest = manifests.get(payload["key"])
        if manifest is not None and not manifest.deleted and manifest.version == payload["version"]:
            found.setdefault((payload["key"], payload["passage"]), _passage(match, manifest))
    return list(found.values())


def _passage(match: Match, manifest: Manifest) -> Passage:
    payload = match.payload
    name = f"{payload['collection']}/{payload['document']}"
    return Passage(
        id=f"{name}#{payload['passage']}",
        collection=payload["collection"],
        document=payload["document"],
        text=payload["text"],
        title=manifest.title,
        heading=payload["heading"],
        url=manifest.url,
        score=round(match.score, 6),
        version=manifest.version,
        start=payload["start"],
        end=payload["end"],
        tags=list(dict.fromkeys([f"document:{name}", f"collection:{payload['collection']}", *manifest.tags])),
        metadata=manifest.metadata,
    )


def fitting(found: list[Passage], max_bytes: int) -> tuple[list[Passage], bool]:
    """The passages that fit into one message, in order, and whether some did not."""
    kept, left = [], max_bytes
    for passage in found:
        size = len(msgspec.json.encode(passage)) + 1
        if size <= left:
            kept.append(passage)
            left -= size
    return kept, len(kept) < len(found)


def vector_of(raw: bytes, dim: int) -> Vector:
    """A vector as it travels; raises Refused when it is not `dim` finite float32 numbers."""
    if len(raw) != 4 * dim:
        raise Refused(f"the vector has {len(raw)} bytes where {4 * dim} are expected")
    vector: Vector = np.frombuffer(raw, dtype="<f4").astype(np.float32)
    if not np.isfinite(vector).all():
        raise Refused("the vector holds numbers that are not finite")
    return vector
