"""Writes docs/asyncapi.json, AsyncAPI 3.0, from the topics and their Structs; a test fails when it is stale.

`python -m hasten.asyncapi` writes it, `python -m hasten.asyncapi --check` exits with 1 when it differs.
"""

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec

import hasten.messages
from hasten.deadline import DEADLINE, REQUEST_ID
from hasten.topics import Topic

PATH = Path("docs/asyncapi.json")
_REF = "#/components/schemas/{name}"
_HEADERS = {
    "type": "object",
    "properties": {
        REQUEST_ID: {"type": "string", "description": "Identifies the request within its tenant; made when absent."},
        DEADLINE: {"type": "string", "description": "Absolute, unix milliseconds. One for the whole path."},
    },
}
"""What a request may carry beside its body."""


def topics() -> list[Topic]:
    """Every topic of every conversation, by module and in the order of declaration."""
    found: list[Topic] = []
    for module in sorted(pkgutil.iter_modules(hasten.messages.__path__), key=lambda module: module.name):
        found += getattr(importlib.import_module(f"hasten.messages.{module.name}"), "TOPICS", ())
    return found


def structs() -> dict[str, type[msgspec.Struct]]:
    """Every Struct that is the body of a message, by name: requests and each member of the reply unions."""
    kinds = [kind for topic in topics() for kind in (*_members(topic.request), *_members(topic.reply))]
    return {kind.__name__: kind for kind in sorted(kinds, key=lambda kind: kind.__name__)}


def _members(kind: Any) -> tuple[Any, ...]:
    return () if kind is None else get_args(kind) or (kind,)


def document() -> dict[str, Any]:
    """The whole description. Channels are topics; requests have a reply channel with every member of the union."""
    found = topics()
    kinds = list(structs().values())
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    asked = {topic.request for topic in found if topic.reply is not None}
    channels = {_identifier(topic): _channel(topic) for topic in found}
    channels |= {f"{_identifier(topic)}_reply": _reply_channel(topic) for topic in found if topic.reply is not None}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "hasten",
            "version": "1",
            "description": "Bodies are JSON. Unknown fields are skipped; new fields have defaults.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"nats": {"host": "127.0.0.1:4222", "protocol": "nats"}},
        "channels": channels,
        "operations": {_identifier(topic): _operation(topic) for topic in found},
        "components": {
            "messages": {kind.__name__: _message(kind, kind in asked) for kind in kinds},
            "schemas": dict(sorted(schemas.items())),
            "messageTraits": {"request": {"headers": _HEADERS}},
        },
    }


def _identifier(topic: Topic) -> str:
    return topic.name.replace(".", "_")


def _message(kind: type[msgspec.Struct], asked: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"name": kind.__name__, "payload": {"$ref": _REF.format(name=kind.__name__)}}
    if asked:
        message["traits"] = [{"$ref": "#/components/messageTraits/request"}]
    return message


def _messages(kind: Any) -> dict[str, Any]:
    return {member.__name__: {"$ref": f"#/components/messages/{member.__name__}"} for member in _members(kind)}


def _channel(topic: Topic) -> dict[str, Any]:
    channel: dict[str, Any] = {"address": topic.template, "messages": _messages(topic.request)}
    if topic.tokens:
        channel["parameters"] = {token: {"description": "1 to 64 of a-z 0-9 _ -"} for token in topic.tokens}
    if topic.queue:
        channel["bindings"] = {"nats": {"queue": topic.queue, "bindingVersion": "0.1.0"}}
    return channel


def _reply_channel(topic: Topic) -> dict[str, Any]:
    return {"address": None, "messages": _messages(topic.reply)}


def _operation(topic: Topic) -> dict[str, Any]:
    """What a user does with the topic: sends to it, and reads the replies on the inbox that it named."""
    channel = f"#/channels/{_identifier(topic)}"
    operation: dict[str, Any] = {
        "action": "send",
        "channel": {"$ref": channel},
        "summary": topic.summary,
        "tags": [{"name": topic.kind}],
        "messages": [{"$ref": f"{channel}/messages/{member.__name__}"} for member in _members(topic.request)],
    }
    if topic.reply is not None:
        replies = f"{channel}_reply"
        operation["reply"] = {
            "address": {"location": "$message.header#/reply-to", "description": "the request's reply subject"},
            "channel": {"$ref": replies},
            "messages": [{"$ref": f"{replies}/messages/{member.__name__}"} for member in _members(topic.reply)],
        }
    return operation


def render() -> str:
    """The text of docs/asyncapi.json, the same on every machine."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2).decode() + "\n"


def main(arguments: list[str]) -> int:
    """Writes the file, or with --check compares it; returns the exit code."""
    if "--check" not in arguments:
        PATH.write_text(render())
        return 0
    if PATH.exists() and PATH.read_text() == render():
        return 0
    print(f"{PATH} is stale: run `python -m hasten.asyncapi`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
