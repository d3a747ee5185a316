"""Decides what of a look-up's reply may be used, how it joins the passages of the collections, and what may be kept;
pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from hasten.messages.chat import Scalar
from hasten.messages.lookup import Finding, Found
from hasten.messages.retrieve import Passage, Retrieved
from hasten.settings import SettingsError
from hasten.topics import BadName, checked

MAX_TEXT_CHARS = 16_000
MAX_FINDINGS = 200
MAX_ABOUT_BYTES = 16 * 1024
"""The most that a passage's title, heading, url, tags and metadata may take."""
MAX_TAGS, MAX_TAG_CHARS = 64, 256
MAX_PLACE = 2**53
"""The largest span and sequence: numbers above are not the same in every language."""
MAX_ID_CHARS = 256
MAX_LOOKUPS = 32
Reason = Literal["timeout", "absent", "failed", "invalid", "too_large", "foreign"]


class Unusable(ValueError):
    """A reply that is not used, or none at all; `reason` is told to the caller."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class LookupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A look-up, `[retriever.lookups.<name>]`: an async Python callable, or else a subject on which a tool answers.

    `subject` may be the tool's own and has to hold `{tenant}`; without it the tool hears
    `hasten.v1.lookup.<tenant>.<name>`. `call` is `package.module:function` or the name of an entry point of the group
    `hasten.lookups`: a function of the tenant and a Lookup that returns a Found. It runs on the event loop and must not
    block. `timeout_ms` is how long it is waited for.

    `cacheable` says that what it tells changes only with a change event that names one of the tags it gives, so that
    answers made of it may be kept.
    """

    subject: str = ""
    call: str = ""
    timeout_ms: float = 300.0
    cacheable: bool = False


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What a look-up has brought: passages, what the reply as a whole depends on, up to where its data had been brought
    (None: it reads the source), and whether answers made of it may be kept."""

    passages: list[Passage] = []
    tags: list[str] = []
    read_seq: int | None = None
    keeps: bool = False


def check(lookups: dict[str, LookupSettings]) -> None:
    """Raises SettingsError for look-ups that cannot be asked."""
    if len(lookups) > MAX_LOOKUPS:
        raise SettingsError(f"[retriever.lookups] has {len(lookups)} look-ups, at most {MAX_LOOKUPS} are taken")
    for name, one in lookups.items():
        where = f"[retriever.lookups.{name}]"
        try:
            checked("the name of a look-up", name)
        except BadName as error:
            raise SettingsError(f"{where}: {error}") from None
        if one.subject and one.call:
            raise SettingsError(f"{where} has a subject and a call: it may have one of them")
        if not 0 < one.timeout_ms <= 60_000:
            raise SettingsError(f"{where}: timeout_ms must be above 0 and at most 60000")
        if one.subject:
            _check_subject(where, one.subject)


def _check_subject(where: str, subject: str) -> None:
    tokens = subject.split(".")
    plain = [token for token in tokens if token not in ("{tenant}", "{lookup}")]
    if "{tenant}" not in tokens:
        raise SettingsError(f"{where}: the subject has to have {{tenant}} for one of its tokens")
    if not all(token and token.isascii() and token.replace("-", "").replace("_", "").isalnum() for token in plain):
        raise SettingsError(f"{where}: the tokens of a subject are letters, digits, _ and -, {{tenant}} or {{lookup}}")
    if tokens[0] in ("hasten", "_INBOX"):
        raise SettingsError(f"{where}: a subject of the tool's own does not begin with {tokens[0]}")


def answered(found: Found, name: str, tenant: str, limit: int, *, cacheable: bool) -> Answered:
    """A reply as passages of the collection `name`, at most `limit`, each id once; raises Unusable.

    It is kept only if the operator has opted in and everything that it rests on has tags: each passage, or the whole.
    """
    if len(found.passages) > MAX_FINDINGS:
        raise Unusable("too_large")
    if any((one.tenant or tenant) != tenant or (one.collection or name) != name for one in found.passages):
        raise Unusable("foreign")
    _check_tags(found.tags)
    if not 0 <= (found.read_seq or 0) <= MAX_PLACE:
        raise Unusable("invalid")
    first: dict[str, Finding] = {}
    for one in found.passages:
        _check_finding(one)
        first.setdefault(one.id, one)
    passages = [_passage(one, name) for one in list(first.values())[:limit]]
    tagged = bool(found.tags) or (bool(first) and all(one.tags for one in first.values()))
    return Answered(passages=passages, tags=found.tags, read_seq=found.read_seq, keeps=cacheable and tagged)


def _check_tags(tags: Sequence[str]) -> None:
    if len(tags) > MAX_TAGS or any(not 1 <= len(tag) <= MAX_TAG_CHARS for tag in tags):
        raise Unusable("too_large")
    _check_unicode(tags)


def _check_finding(one: Finding) -> None:
    if len(one.text) > MAX_TEXT_CHARS or len(one.id) > MAX_ID_CHARS or len(one.document) > MAX_ID_CHARS:
        raise Unusable("too_large")
    _check_tags(one.tags)
    spans = 0 <= one.start <= (one.end or one.start) <= MAX_PLACE
    if not one.id or not one.text.strip() or not spans or not all(map(_scalar, one.metadata.values())):
        raise Unusable("invalid")
    _check_unicode([one.id, one.text, one.document, one.title, one.heading, one.url])
    try:
        about = msgspec.json.encode([one.title, one.heading, one.url, one.metadata])
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError):
        raise Unusable("invalid") from None
    if len(about) > MAX_ABOUT_BYTES:
        raise Unusable("too_large")


def _check_unicode(texts: Sequence[str]) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise Unusable("invalid") from None


def _scalar(value: Any) -> bool:
    if isinstance(value, list):
        return all(not isinstance(one, list) and _scalar(one) for one in value)
    return isinstance(value, Scalar) and not (isinstance(value, float) and not math.isfinite(value))


def _passage(one: Finding, name: str) -> Passage:
    end = one.end or one.start + len(one.text)
    return Passage(
        id=f"{name}/{one.id}",
        collection=name,
        document=one.document or one.id,
        text=one.text,
        title=one.title,
        heading=one.heading,
        url=one.url,
        start=one.start,
        end=end,
        tags=list(dict.fromkeys([f"collection:{name}", *one.tags])),
        metadata=one.metadata,
    )


def joined(ranked: list[Passage], brought: Mapping[str, Answered | Reason], read_seq: int) -> Retrieved:
    """One reply of the collections' passages, best first, and what the look-ups have brought or why they have not.

    A look-up that was left out is volatile as well: with it the answer would be another.
    """
    here = {name: one for name, one in brought.items() if isinstance(one, Answered)}
    left_out = {name: str(one) for name, one in brought.items() if not isinstance(one, Answered)}
    return Retrieved(
        passages=merged(ranked, [one.passages for one in here.values()]),
        read_seq=min([read_seq, *(one.read_seq for one in here.values() if one.read_seq is not None)]),
        missing=[name for name, one in here.items() if not one.passages],
        skipped=left_out,
        tags=list(dict.fromkeys(tag for one in here.values() for tag in one.tags)),
        volatile=[name for name, one in brought.items() if not isinstance(one, Answered) or not one.keeps],
    )


def merged(ranked: list[Passage], others: Sequence[list[Passage]]) -> list[Passage]:
    """The passages of the collections, and of look-ups, by their places: first all the first ones, and so on.

    A look-up's passage gets the score of the collections' passage in its place, since the two cannot be compared.
    """
    found: list[Passage] = []
    for place in range(max([len(ranked), *map(len, others)])):
        scored = ranked[min(place, len(ranked) - 1)].score if ranked else 0.0
        found += ranked[place : place + 1]
        found += [msgspec.structs.replace(one[place], score=scored) for one in others if place < len(one)]
    return found
