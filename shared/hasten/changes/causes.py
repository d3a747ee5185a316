"""Says which tags of whom an event makes stale, and why each of them; pure.

Where something cannot be told, the level above it goes: all rows of the table, all values of a tag, all tenants.
"""

from collections.abc import Iterable, Sequence

from hasten.changes.identity import Identity, identities, tag_key
from hasten.changes.keys import default_keys
from hasten.changes.rules import Made, Rule, Rules, tenant_of
from hasten.changes.shapes import UNREADABLE, Event, Place
from hasten.changes.tags import EVERYBODY
from hasten.changes.template import Template

WHOLE = frozenset({"truncate", "schema", UNREADABLE})
"""What concerns all rows of a table."""
ROW = "the row"
TABLE = "all rows of the table: it was emptied, or the key of the row cannot be told"
GIVEN = "the event names the tag"
DOUBT = "the event may be a row of the table that its subject names"
RULE = "a tag of the rule"
WIDE = "a tag of the rule, for all values: the old one cannot be told"
DOCUMENT = "the document that the row becomes"
COLLECTION = "the collection of that document"

NO_RULE = Rule(table="*")
"""What holds for a table that no rule speaks of."""
Causes = dict[str, dict[str, str]]
"""By tenant: each tag, and why it is stale."""


def causes(event: Event, place: Place, rules: Rules) -> Causes:
    """The tags that an event evicts by these rules, before `reaching`. Empty when it changes nothing."""
    found: Causes = {}
    if not event.op:
        return found
    if event.tags:
        _add(found, EVERYBODY, event.tags, GIVEN)
    for table, schema in event.tables or ((event.table, event.schema),):
        if table:
            for rule in rules.find(table, schema) or (NO_RULE,):
                _of_rule(found, rule, event, _forms(table, schema))
    if event.doubt and place.table:
        _add(found, EVERYBODY, _forms(place.table, place.schema), DOUBT)
    return found


def _add(found: Causes, tenant: str, tags: Iterable[str], why: str) -> None:
    mine = found.setdefault(tenant, {})
    for tag in tags:
        mine.setdefault(tag, why)


def _forms(table: str, schema: str) -> list[str]:
    return [table, f"{schema}.{table}"] if schema else [table]


def _of_rule(found: Causes, rule: Rule, event: Event, forms: Sequence[str]) -> None:
    rows = [] if event.op in WHOLE else rows_of(rule, event)
    ignored = rule.ignores_snapshots and event.op == "snapshot"
    if not rows:
        _all_rows(found, rule, forms, ignored=ignored)
    for key, identity in rows:
        owner = _owner(rule.tenant, identity)
        if not ignored:
            _add(found, owner, [f"{form}:{key}" for form in forms], ROW)
            _add(found, owner, [form for form in forms if ":" in form], ROW)
            for tag in rule.tags:
                _add_tag(found, owner, tag, identity, event, rule.key)
        if rule.document is not None:
            _add_document(found, rule.document, identity, event)


def rows_of(rule: Rule, event: Event) -> list[tuple[str, Identity]]:
    """The rows of an event: the key of each as tags spell it, and by its columns if the rule names them."""
    if rule.key:
        return [(tag_key(one), one) for one in identities(event, rule.key)]
    return [(key, {}) for key in default_keys(event.key, event.rows)]


def _owner(tenant: Template | None, identity: Identity) -> str:
    return EVERYBODY if tenant is None else tenant_of(tenant, identity) or EVERYBODY


def _all_rows(found: Causes, rule: Rule, forms: Sequence[str], *, ignored: bool) -> None:
    owner = _owner(rule.tenant, {})
    if not ignored:
        _add(found, owner, forms, TABLE)
        _add(found, owner, [form.partition(":")[0] for form in forms if ":" in form], TABLE)
    for tag in () if ignored else rule.tags:
        _add(found, owner, [tag.wide if tag.columns else tag.text], WIDE if tag.columns else RULE)
    if (made := rule.document) is not None:
        _add(found, _owner(made.tenant, {}), [f"collection:{made.rule.collection}"], COLLECTION)


def _add_tag(found: Causes, owner: str, tag: Template, identity: Identity, event: Event, key: Sequence[str]) -> None:
    if all(column in key for column in tag.columns):
        _add(found, owner, [tag.filled(identity) or tag.wide], RULE)
        return
    told = _values(tag, event)
    if told is None:
        _add(found, owner, [tag.wide], WIDE)
    else:
        _add(found, owner, told, RULE)


def _values(tag: Template, event: Event) -> list[str] | None:
    """The tag for the old values of a row and for the new ones; None when they are not all told.

    A null or a zero in `before` may stand for a value that the source did not send; in `after` it is one.
    """
    old = _old(tag, event.before) if event.before is not None else None
    if old is None and event.op != "create":
        return None
    new = tag.filled(event.after) if event.after is not None else None
    if new is None and event.op != "delete" and (event.after is None or not _null(tag, event.after)):
        return None
    return [value for value in (old, new) if value is not None]


def _old(tag: Template, before: dict[str, object]) -> str | None:
    return None if any(_made_up(before.get(column)) for column in tag.columns) else tag.filled(before)


def _made_up(value: object) -> bool:
    """Whether this may be what Debezium puts where PostgreSQL logged no more than the key: the zero of its type."""
    return not value or value == "AA==" or (type(value) is str and value.startswith(("1970-01-01", "00:00:00")))


def _null(tag: Template, row: dict[str, object]) -> bool:
    return not tag.absent(row) and any(row[column] is None for column in tag.columns)


def _add_document(found: Causes, made: Made, identity: Identity, event: Event) -> None:
    owner = _owner(made.tenant, identity)
    collection = made.rule.collection
    _add(found, owner, [f"document:{collection}/{made.id.filled(identity)}"], DOCUMENT)
    _add(found, owner, [f"collection:{collection}"], COLLECTION)
    told = (tag.filled(row) for tag in made.tags for row in event.rows)
    _add(found, owner, [tag for tag in told if tag is not None], DOCUMENT)
