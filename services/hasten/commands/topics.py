"""`hasten topics`: what can be said on the bus."""

import msgspec

from hasten.asyncapi import topics as all_topics
from hasten.commands.options import Json
from hasten.topics import Topic

HEARD_BY = {"stored": "the stream HASTEN_CHANGES", "stream": "the worker that it names"}
"""Who hears a topic without a queue group, by its kind; events go to everybody."""


def topics(as_json: Json = False) -> None:
    """List every subject, what is sent there and what comes back."""
    rows = [row(topic) for topic in all_topics()]
    if as_json:
        print(msgspec.json.encode(rows).decode())
        return
    for one in rows:
        answer = f" → {one['reply']}" if one["reply"] else ""
        print(one["subject"])
        print(f"    {one['summary']}")
        print(f"    {one['kind']} · {one['request']}{answer} · heard by {one['heard_by']}")


def row(topic: Topic) -> dict[str, str]:
    """One topic as text."""
    return {
        "subject": topic.template,
        "kind": topic.kind,
        "request": names(topic.request),
        "reply": names(topic.reply),
        "heard_by": topic.queue or HEARD_BY.get(topic.kind, "everybody"),
        "summary": topic.summary,
    }


def names(kind: object) -> str:
    """The Struct of a topic, or those of a union, by name."""
    members = getattr(kind, "__args__", (kind,))
    return " | ".join(member.__name__ for member in members if hasattr(member, "__name__") and kind is not None)
