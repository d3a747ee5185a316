"""Turns row events into versions of documents, as the rules of their tables say; pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hasten.changes import EVERYBODY, Event, Rules, explained
from hasten.changes.identity import Identity, identities, tag_key
from hasten.changes.keys import unchanged
from hasten.changes.positions import Position, position
from hasten.changes.rules import Made, Rule, tenant_of
from hasten.messages.chat import Scalar
from hasten.messages.retrieve import Document
from hasten.retriever.domain import Refused, Unfit, check
from hasten.retriever.records import Key, Manifest


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Where a version of a document comes from. `origin` is the table as its rule names it.

    `values` are the columns that the document is made of, without the `missing` ones, which the source did not send.
    `at` is the change's place in the source's log; a `snapshot` says how the row is now, whatever its place.
    """

    made: Made
    origin: str
    table: str
    identity: Identity
    values: dict[str, Any]
    missing: frozenset[str] = frozenset()
    at: Position | None = None
    snapshot: bool = False


class Mail(msgspec.Struct, frozen=True):
    """One version of a document, and where its message stands in the stream. `row` is the row that it was made of.

    Where columns of the row are missing, `document` has its id only.
    """

    key: Key
    sequence: int
    document: Document
    row: Row | None = None

    @property
    def partial(self) -> bool:
        """Whether it can be completed only from the version before."""
        return self.row is not None and bool(self.row.missing)

    @property
    def deletion(self) -> "Mail":
        """The same version as one that deletes the document."""
        row = None if self.row is None else msgspec.structs.replace(self.row, missing=frozenset())
        return Mail(self.key, self.sequence, Document(id=self.key.document, op="delete"), row)


class Emptied(msgspec.Struct, frozen=True):
    """All documents of a table go."""

    origin: str


class Steps(msgspec.Struct, frozen=True):
    """What an event does to documents, and why it does less than the rules want."""

    todo: list[Mail | Emptied]
    refused: list[str]


def steps(subject: str, headers: Mapping[str, str], data: bytes, sequence: int, rules: Rules) -> Steps:
    """The versions of documents in an event that concerns everybody; a tenant's own events name no rows of others."""
    found = explained(subject, headers, data, rules)
    made = Steps([], [])
    event = found.event
    if found.tenant != EVERYBODY or not event.op:
        return made
    for rule in rules.find(event.table, event.schema) if event.table else ():
        if rule.document is not None:
            try:
                for step in _of_rule(rule, rule.document, event, sequence):
                    made.todo.append(step)
            except Refused as error:
                made.refused.append(str(error))
    return made


def _of_rule(rule: Rule, made: Made, event: Event, sequence: int) -> Iterator[Mail | Emptied]:
    """Raises Refused after what can be done: a row that may not go where it belongs now is no longer where it was, and
    the document of one that cannot be indexed any more is not what it says."""
    if event.op == "truncate":
        yield Emptied(rule.table)
        return
    if event.fault:
        return
    known = identities(event, rule.key)
    if not known:
        raise Refused("the key of the row cannot be told, so its document stays as it was")
    if event.op == "delete":
        yield from (_deleted(rule, made, event, one, sequence) for one in known)
        return
    if event.after is None:
        raise Refused("the event carries no row, so its document stays as it was")
    now = next(iter(identities(msgspec.structs.replace(event, key=None, before=None), rule.key)), known[0])
    for one in known:
        if one != now and tenant_of(made.tenant, one) is not None:
            yield _deleted(rule, made, event, one, sequence)
    try:
        yield _upserted(rule, made, event, now, sequence)
    except Unfit:
        yield _deleted(rule, made, event, now, sequence)
        raise


def _row(rule: Rule, made: Made, event: Event, identity: Identity) -> Row:
    after = {**(event.after or {}), **identity}
    values = {column: after[column] for column in made.columns if column in after and not unchanged(after[column])}
    return Row(
        made=made,
        origin=rule.table,
        table=event.table,
        identity=identity,
        values=values,
        missing=frozenset(made.columns - values.keys()) if event.op != "delete" else frozenset(),
        at=position(event.source),
        snapshot=event.op == "snapshot",
    )


def _key(made: Made, identity: Identity) -> Key:
    tenant = tenant_of(made.tenant, identity)
    if tenant is None:
        raise Refused("the column that names the tenant holds no tenant's name")
    return Key(tenant, made.rule.collection, made.id.filled(identity) or "")


def _deleted(rule: Rule, made: Made, event: Event, identity: Identity, sequence: int) -> Mail:
    key = _key(made, identity)
    return Mail(key, sequence, Document(id=key.document, op="delete"), _row(rule, made, event, identity))


def _upserted(rule: Rule, made: Made, event: Event, identity: Identity, sequence: int) -> Mail:
    key, row = _key(made, identity), _row(rule, made, event, identity)
    return Mail(key, sequence, Document(id=key.document) if row.missing else document_of(key, row), row)


def completed(key: Key, row: Row, before: Mapping[str, Any] | None) -> tuple[Document, Row]:
    """The document of a row of which some columns are missing, with those of the version before.

    Raises Refused when that is not known.
    """
    if before is None or not row.missing <= before.keys():
        columns = ", ".join(sorted(row.missing))
        raise Refused(f"the columns {columns} were not sent, and no version of the document from before has them")
    whole = msgspec.structs.replace(
        row, values={**row.values, **{name: before[name] for name in row.missing}}, missing=frozenset()
    )
    return document_of(key, whole), whole


def document_of(key: Key, row: Row) -> Document:
    """The document of a whole row; raises Refused for one that must not be indexed."""
    made, values = row.made, row.values
    own = [tag for one in made.tags if (tag := one.filled(values)) is not None]
    document = Document(
        id=key.document,
        title=made.title.words(values),
        text=made.text.words(values),
        media_type=made.rule.media_type,
        url=made.url.words(values),
        metadata={name: _scalar(values[name]) for name in made.rule.metadata if values[name] is not None},
        tags=[f"{row.table}:{tag_key(row.identity)}", *own],
    )
    check(document)
    return document


def _scalar(value: Any) -> Scalar | list[Scalar]:
    """A column as metadata can be filtered by: lists of plain values too, anything else as its JSON."""
    if isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, list) and all(isinstance(part, (str, int, float, bool)) for part in value):
        return value
    return msgspec.json.encode(value).decode()


def supersedes(known: Manifest, mail: Mail) -> bool:
    """Whether the current version stays: it is newer in the stream, or for certain in the source's log, or a deletion
    that a second one without a place in that log must not hide."""
    if known.version >= mail.sequence:
        return True
    row = mail.row
    if row is None:
        return False
    if row.at is None:
        return known.deleted and mail.document.op == "delete"
    return not row.snapshot and known.at is not None and row.at.older_than(known.at)


def says_the_same(known: Manifest, row: Row, document: Document) -> bool:
    """Whether the current version is this one: the same place in the source's log, and the same words."""
    return row.at is not None and known.at == row.at and not known.deleted and known.digest == document.digest


def best_first(mails: list[Mail]) -> list[Mail]:
    """Versions of one document in the order to apply them: first the one that will stay, then the newest of the others.

    Where one has to be completed from the version before it, all go in the order of the stream.
    """
    ordered = sorted(mails, key=lambda mail: mail.sequence)
    if any(mail.partial for mail in ordered):
        return ordered
    best = ordered[0]
    for mail in ordered[1:]:
        at, known = mail.row and mail.row.at, best.row and best.row.at
        if not (at and known and at.older_than(known)) or (mail.row and mail.row.snapshot):
            best = mail
    return [best, *(mail for mail in reversed(ordered) if mail is not best)]
