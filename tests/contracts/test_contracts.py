"""The wire format is a promise: one frozen sample of every public message decodes for ever.

A sample is never edited. When a Struct gets a new field (with a default) its sample stays as it is; a new Struct gets
a sample of its own.
"""

import inspect
import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from hasten.asyncapi import structs, topics
from hasten.codec import decode, encode
from hasten.messages.chat import Usage

SAMPLES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.json"))}


def sample(name: str) -> bytes:
    return SAMPLES[name].read_bytes()


def reachable() -> dict[str, type[msgspec.Struct]]:
    """The bodies and every Struct inside them."""
    found: dict[str, type[msgspec.Struct]] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__name__ not in found:
            found[kind.__name__] = kind
            for field in msgspec.structs.fields(kind):
                visit(field.type)
        for inner in get_args(kind):
            visit(inner)

    for kind in structs().values():
        visit(kind)
    return found


def test_every_message_has_a_sample_and_every_sample_a_message() -> None:
    assert sorted(SAMPLES) == sorted(structs())


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_sample_survives_a_round_trip(name: str) -> None:
    body = decode(structs()[name], sample(name))
    assert json.loads(encode(body)) == json.loads(sample(name))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_unknown_fields_are_skipped(name: str) -> None:
    newer = {**json.loads(sample(name)), "from_a_later_version": {"deep": [1]}}
    assert decode(structs()[name], json.dumps(newer).encode()) == decode(structs()[name], sample(name))


ANSWERED = [topic for topic in topics() if topic.reply is not None]


@pytest.mark.parametrize("topic", ANSWERED, ids=lambda topic: topic.name)
def test_the_type_says_which_member_of_the_union_a_reply_is(topic: Any) -> None:
    for member in get_args(topic.reply):
        raw = sample(member.__name__)
        assert json.loads(raw)["type"] == member.__struct_config__.tag
        assert type(decode(topic.reply, raw)) is member


@pytest.mark.parametrize("name", sorted(reachable()))
def test_every_struct_is_frozen_keyword_only_and_leaves_defaults_out(name: str) -> None:
    kind = reachable()[name]
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.omit_defaults or kind is Usage
    assert not kind.__struct_config__.forbid_unknown_fields
    kinds = {parameter.kind for parameter in inspect.signature(kind).parameters.values()}
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("name", sorted(reachable()))
def test_every_struct_says_what_it_means(name: str) -> None:
    assert (reachable()[name].__doc__ or "").strip().endswith((".", ")"))


def test_topics_have_names_and_subjects_of_their_own() -> None:
    found = topics()
    assert len({topic.name for topic in found}) == len({topic.template for topic in found}) == len(found)
    for topic in found:
        assert topic.summary.endswith(".")
        assert topic.template.startswith("hasten.v1.")
        assert (topic.reply is None) == (topic.kind in ("event", "stored"))
