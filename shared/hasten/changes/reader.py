"""Reads the messages of HASTEN_CHANGES one after the other and says what each of them evicts; pure, never raises.

What cannot be read is not skipped: it evicts the table that its subject names, because an answer that is made anew is
cheaper than one that is wrong.
"""

from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from sys import intern

import msgspec

from hasten.changes.causes import NO_RULE, WHOLE, Causes, causes, rows_of
from hasten.changes.positions import Position, position
from hasten.changes.rules import Rules
from hasten.changes.shapes import UNREADABLE, Event, Place, recognised
from hasten.changes.tags import ALL, EVERYBODY, Eviction, bounded, reaching
from hasten.messages.change import CHANGE, TENANT_CHANGE
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.topics import BadName, checked

NO_RULES = Rules()
REMEMBERED = 50_000
"""Rows whose last change a reader remembers (about 500 bytes each, measured)."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one message says and evicts. `repeated` is a change that was heard before: it evicts nothing again."""

    event: Event
    evictions: list[Eviction] = []
    repeated: bool = False


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What one message says, the tenant and place its subject names, and by tenant which tags are stale and why."""

    event: Event
    place: Place
    tenant: str | None
    causes: Causes


def explained(subject: str, headers: Mapping[str, str], data: bytes, rules: Rules = NO_RULES) -> Explained:
    """Reads one message by these rules, as if it were the first."""
    if subject.startswith(_DOCUMENTS):
        return _document(subject, data)
    tenant, place = addressed(subject, rules)
    if tenant is None:
        return Explained(event=Event(shape="nobody"), place=place, tenant=None, causes={})
    event = recognised(place, headers, data)
    found = causes(event, place, rules)
    if tenant != EVERYBODY and found:
        mine = {tag: why for tags in found.values() for tag, why in tags.items()}
        found = {tenant: mine}
    elif tenant != EVERYBODY and event.op and not event.table:
        found = {tenant: {ALL: "something changed, and neither the event nor its subject names a table"}}
    return Explained(event=event, place=place, tenant=tenant, causes=found)


def evicted(subject: str, headers: Mapping[str, str], data: bytes, rules: Rules = NO_RULES) -> list[Eviction]:
    """What one message makes stale; nothing for heartbeats and transaction markers.

    A row evicts `<table>:<key>` and `<schema>.<table>:<key>`, a truncate or a key that cannot be told `<table>` and
    `<schema>.<table>`, a document `document:<collection>/<id>`, `collection:<collection>` and its own tags. Without a
    rule the key is that of the message and the column `id`; of several columns the values are joined by commas, in the
    order of the columns' names. Each row also evicts `<table>:*`, which only answers that depend on the whole table
    heed. Rules add tags and documents, and say whose the rows are.
    """
    return _evictions(explained(subject, headers, data, rules))


def _evictions(found: Explained) -> list[Eviction]:
    reason = found.event.reason or found.event.op
    return [Eviction(tenant=who, tags=reaching(tags), reason=reason) for who, tags in found.causes.items() if tags]


class ChangeReader:
    """Reads messages in the order of the stream and knows the ones that a pipeline sends twice.

    A change is dropped only if it can say nothing new. If it is the same (subject, key, position in the source's log,
    both images) as the last that was heard of its row, nothing has happened to the row in between. If its table makes
    no documents, one that is older than that for certain is dropped too. All else evicts.
    """

    def __init__(self, rules: Rules = NO_RULES, *, remembered: int = REMEMBERED) -> None:
        self.rules, self._limit = rules, remembered
        self._last: OrderedDict[tuple[str, str], _Last] = OrderedDict()
        self._emptied: dict[str, int] = {}
        self._deleting: set[str] = set()
        self._turn = 0

    def read(self, subject: str, headers: Mapping[str, str], data: bytes) -> Reading:
        """What the next message evicts."""
        found = explained(subject, headers, data, self.rules)
        event = found.event
        if not found.causes:
            return Reading(event=event)
        if self._echoes(subject, event):
            return Reading(event=event, repeated=True)
        if event.shape == "document":
            self._forget_documents(subject)
        elif self._repeated(subject, found):
            return Reading(event=event, repeated=True)
        return Reading(event=event, evictions=_evictions(found))

    def _echoes(self, subject: str, event: Event) -> bool:
        """Whether a tombstone that names no row only repeats the delete just before it on its subject, as Debezium
        sends one after every delete in an envelope. Anywhere else it may be all there is of a delete."""
        nameless = event.shape == "tombstone" and event.key is None
        if nameless and subject in self._deleting:
            return True
        self._deleting.discard(subject)
        if event.op == "delete" and not nameless and len(self._deleting) < self._limit:
            self._deleting.add(subject)
        return False

    def _repeated(self, subject: str, found: Explained) -> bool:
        """Whether the change was heard before; remembers it if not."""
        event = found.event
        rules = self.rules.find(event.table, event.schema) if event.table else ()
        if event.tables or event.op in WHOLE or event.doubt or len(rules) > 1 or not event.table:
            self._forget_tables(event, found.place)
            return False
        rows = rows_of(rules[0] if rules else NO_RULE, event)
        if len(rows) != 1:
            self._forget_tables(event, found.place)
            return False
        name = (intern(event.table), rows[0][0])
        at = position(event.source)
        if at is None:
            self._last.pop(name, None)
            return False
        made = rules[0].document if rules else None
        now = _Last(at, _content(subject, event), hash(tuple(map(tuple, found.causes.values()))), self._turn)
        last = self._last.get(name)
        if last is not None and self._emptied.get(event.table, -1) <= last.turn:
            if last.at == at and last.content == now.content and not (made and made.shared):
                return True
            if made is None and event.op != "snapshot" and at.older_than(last.at) and last.tags == now.tags:
                return True
        self._last[name] = now
        self._last.move_to_end(name)
        if len(self._last) > self._limit:
            self._last.popitem(last=False)
        return False

    def _forget_tables(self, event: Event, place: Place) -> None:
        """What was heard of these tables before says nothing of how their rows are now."""
        self._turn += 1
        if len(self._emptied) > self._limit:
            self._last.clear()
            self._emptied.clear()
        for table in (event.table, place.table, *(table for table, _ in event.tables)):
            self._emptied[table] = self._turn

    def _forget_documents(self, subject: str) -> None:
        """A document that comes beside the rows of its collection may be one of theirs."""
        collection = subject.rpartition(".")[2]
        if collection in self.rules.collections:
            self._last.clear()


class _Last(msgspec.Struct, frozen=True):
    at: Position
    content: int
    tags: int
    turn: int


def _content(subject: str, event: Event) -> int:
    """Tells two changes apart that have one place in the log: a connector may send more columns after a restart."""
    return hash((subject, event.op, msgspec.json.encode((event.key, event.before, event.after))))


_DOCUMENTS = DOCUMENT.template.partition("{")[0]
_CHANGES = CHANGE.template.partition("{")[0]
_TENANTS = TENANT_CHANGE.template.partition("{")[0]


@lru_cache(maxsize=1024)
def addressed(subject: str, rules: Rules = NO_RULES) -> tuple[str | None, Place]:
    """The tenant, None when there can be no such tenant, and the table that a subject names.

    `shop.public.prices` is the table `prices` of the schema `public`, `shop.prices` and `prices` are `prices`.
    """
    if subject.startswith(_TENANTS):
        tenant, *tokens = subject[len(_TENANTS) :].split(".")
        try:
            return checked("tenant", tenant), _place(tokens, rules)
        except BadName:
            return None, Place()
    return EVERYBODY, _place([token for token in subject.removeprefix(_CHANGES).split(".") if token], rules)


def _place(tokens: list[str], rules: Rules) -> Place:
    if not tokens:
        return Place()
    table, schema = tokens[-1], tokens[-2] if len(tokens) > 2 else ""
    return Place(table=table, schema=schema, keys=[rule.key for rule in rules.find(table, schema)])


def _document(subject: str, data: bytes) -> Explained:
    try:
        where = DOCUMENT.parse(subject)
    except BadName:
        return Explained(event=Event(shape="nobody"), place=Place(), tenant=None, causes={})
    tenant, collection = where["tenant"], where["collection"]
    whole = {f"collection:{collection}": "the collection of the document"}
    try:
        document = _decode_document(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        event = Event(shape="document", op=UNREADABLE)
        return Explained(event=event, place=Place(), tenant=tenant, causes={tenant: whole})
    tags = {f"document:{collection}/{document.id}": "the document", **whole}
    tags |= {tag: "a tag of the document" for tag in bounded(document.tags) if tag not in tags}
    event = Event(shape="document", op=f"document {document.op}")
    return Explained(event=event, place=Place(), tenant=tenant, causes={tenant: tags})


_decode_document = msgspec.json.Decoder(Document).decode
