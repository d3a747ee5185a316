"""What an operator says of tables: their keys, whose they are, which tags and documents come of them; pure.

Rules are checked when they are read, so that an event only ever meets rules that can be applied.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

import msgspec

from hasten.changes.template import Template, template
from hasten.topics import BadName, checked

WILD = frozenset("*?[")


class BadRule(ValueError):
    """A rule that cannot be applied; the text names the table and the field."""


class DocumentRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document that a row becomes: `id`, `title`, `text`, `url` and `tags` are templates, `metadata` names columns.

    `collection` and `tenant` say where it goes; the tenant is that of the table when it is absent. `id` may use key
    columns only, so that a delete finds the document.
    """

    collection: str
    id: str
    text: str
    title: str = ""
    url: str = ""
    media_type: str = "text/markdown"
    metadata: list[str] = []
    tags: list[str] = []
    tenant: str = ""


class TableRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a change of a row of `table` means. `table` is `schema.table`, `table`, or a pattern of either (`shop.*`).

    `key` names the columns of the primary key. `tenant` is a name, or a key column in braces (`{tenant_id}`); without
    it the rows concern every tenant. `tags` are evicted besides the table's own: templates, such as `price-list` or
    `category:{category}`. `snapshot` says whether a row that is read in a snapshot evicts anything or is ignored.
    """

    table: str
    key: list[str] = []
    tenant: str = ""
    tags: list[str] = []
    snapshot: Literal["evict", "ignore"] = "evict"
    document: DocumentRule | None = None


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """The templates of a document. `shared` says that rows of another rule are in its collection too."""

    rule: DocumentRule
    shared: bool = False
    tenant: Template
    id: Template
    title: Template
    text: Template
    url: Template
    tags: tuple[Template, ...]

    @property
    def columns(self) -> set[str]:
        """Every column that the document is made of."""
        templates = (self.tenant, self.id, self.title, self.text, self.url, *self.tags)
        return {column for one in templates for column in one.columns} | set(self.rule.metadata)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A table's rule, ready to be applied. `key` is in the order of the columns' names, as tags spell it.

    `tenant` is None when it cannot be told from the key alone: then a change concerns everybody.
    """

    table: str
    key: tuple[str, ...] = ()
    tenant: Template | None = None
    tags: tuple[Template, ...] = ()
    ignores_snapshots: bool = False
    document: Made | None = None

    def matches(self, table: str, schema: str) -> bool:
        """Whether a table is meant. One whose schema is not known is found by its name alone."""
        if self.table == table:
            return True
        if "." not in self.table:
            return fnmatchcase(table, self.table)
        return fnmatchcase(f"{schema}.{table}" if schema else table, self.table if schema else self._name)

    @property
    def _name(self) -> str:
        return self.table.rpartition(".")[2]


class Rules:
    """The rules of all tables; several may concern one, and then all of them hold. `warnings` are for the operator.

    `collections` are those that rows become documents of."""

    def __init__(self, tables: Iterable[TableRule] = (), *, origin: str = "") -> None:
        self.warnings: list[str] = []
        given = list(tables)
        into = Counter(rule.document.collection for rule in given if rule.document is not None)
        self.collections = frozenset(into)
        self.all = [self._made(rule, origin, into) for rule in given]
        self.find = lru_cache(maxsize=4096)(self._find)

    def _find(self, table: str, schema: str) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.all if rule.matches(table, schema))

    @property
    def makes_documents(self) -> bool:
        """Whether rows of any table become documents."""
        return any(rule.document is not None for rule in self.all)

    def _made(self, given: TableRule, origin: str, into: Counter[str]) -> Rule:
        where = f"{origin}table {given.table!r}" if given.table else f"{origin}a table without a name"
        if not given.table or given.table.count(".") > 1:
            raise BadRule(f"{where}: table must be schema.table or table")
        if len(set(given.key)) < len(given.key) or not all(given.key):
            raise BadRule(f"{where}: key must name each column once")
        key = tuple(sorted(given.key))
        tenant = self._tenant(given, key, where)
        return Rule(
            table=given.table,
            key=key,
            tenant=tenant,
            tags=tuple(self._tag(text, key, f"{where}: tags[{n}]") for n, text in enumerate(given.tags)),
            ignores_snapshots=given.snapshot == "ignore",
            document=_document(given, key, into, where) if given.document is not None else None,
        )

    def _tenant(self, given: TableRule, key: Sequence[str], where: str) -> Template | None:
        if not given.tenant:
            return None
        found = _named_tenant(given.tenant, f"{where}: tenant")
        if missing := _beyond(found, key):
            self.warnings.append(
                f"{where}: tenant needs the column {missing}, which is not in key: old values are known of key columns "
                "only, so every change of this table evicts for all tenants"
            )
            return None
        return found

    def _tag(self, text: str, key: Sequence[str], where: str) -> Template:
        found = _template(text, where)
        if not text or (found.columns and "{" in found.wide) or (found.columns and ":" not in text):
            raise BadRule(f"{where}: a tag with a column begins with a fixed part and a colon, as in prices:{{id}}")
        if missing := _beyond(found, key):
            self.warnings.append(
                f"{where} needs the column {missing}, which is not in key: a change that does not tell the old value "
                f"evicts all of {found.wide!r}"
            )
        return found


def _document(given: TableRule, key: Sequence[str], into: Counter[str], where: str) -> Made:
    rule, field = given.document, f"{where}: document"
    assert rule is not None
    if WILD & set(given.table):
        raise BadRule(f"{field}: the table of a document must be named in full, not by a pattern")
    if not key:
        raise BadRule(f"{field}: key must name the columns that the document is found by")
    try:
        checked("collection", rule.collection)
    except BadName as error:
        raise BadRule(f"{field}.collection: {error}") from None
    tenant = rule.tenant or given.tenant
    if not tenant:
        raise BadRule(f"{field}.tenant: a document belongs to one tenant: name it, or a key column in braces")
    made = Made(
        rule=rule,
        shared=into[rule.collection] > 1,
        tenant=_named_tenant(tenant, f"{field}.tenant"),
        id=_template(rule.id, f"{field}.id"),
        title=_template(rule.title, f"{field}.title"),
        text=_template(rule.text, f"{field}.text"),
        url=_template(rule.url, f"{field}.url"),
        tags=tuple(_template(text, f"{field}.tags[{n}]") for n, text in enumerate(rule.tags)),
    )
    for name, found in (("id", made.id), ("tenant", made.tenant)):
        if missing := _beyond(found, key):
            raise BadRule(
                f"{field}.{name}: the column {missing} is not in key, so a delete would not find the document"
            )
    if not made.id.columns or not made.text.columns:
        raise BadRule(f"{field}: id and text need a column in braces, else all rows are one document")
    return made


def _template(text: str, where: str) -> Template:
    try:
        return template(text)
    except ValueError as error:
        raise BadRule(f"{where}: {error}") from None


def _named_tenant(text: str, where: str) -> Template:
    found = _template(text, where)
    if not found.columns:
        try:
            checked("tenant", text)
        except BadName as error:
            raise BadRule(f"{where}: {error}") from None
    return found


def _beyond(found: Template, key: Sequence[str]) -> str:
    """The first column that is not in the key."""
    return next((column for column in found.columns if column not in key), "")


def tenant_of(found: Template, key: Mapping[str, Any]) -> str | None:
    """The tenant of a row with this key; None when the value is no tenant's name."""
    try:
        return checked("tenant", found.filled(key) or "")
    except BadName:
        return None
