"""Reads a change event that somebody asks about, as it would be read if it came; pure."""

import msgspec

from hasten.changes import EVERYBODY, Explained, Rules, explained
from hasten.messages.cache import EventReading, SampleEvent, TagReason


def read_for(tenant: str, event: SampleEvent, rules: Rules) -> EventReading:
    """What the event is taken for and which tags of this tenant it evicts; those of others are not told."""
    data = b"" if event.body is None else msgspec.json.encode(event.body)
    found = explained(event.subject, event.headers, data, rules)
    tags = {**found.causes.get(EVERYBODY, {}), **found.causes.get(tenant, {})}
    return EventReading(
        shape=found.event.shape,
        op=found.event.op,
        table=_table(found),
        rules=[rule.table for rule in rules.find(found.event.table, found.event.schema)] if found.event.table else [],
        tags=[TagReason(tag=tag, why=why) for tag, why in tags.items()],
        fault=found.event.fault,
    )


def _table(found: Explained) -> str:
    tables = found.event.tables or [(found.event.table, found.event.schema)]
    return ", ".join(f"{schema}.{table}" if schema else table for table, schema in tables)
