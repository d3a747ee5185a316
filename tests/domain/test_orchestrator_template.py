"""How much of a template's prompts repeats: counted per tenant, bounded, from hashes; and tools in one order."""

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.messages.chat import Turn, Usage, parse_chat
from hasten.orchestrator.steady import steady
from hasten.orchestrator.template import BLOCK, Templates

SYSTEM = Turn(role="system", content="You sell the plans of a help centre. " * 20)
WORDS = 200


def asked(
    templates: Templates, *rest: str, tenant: str = "acme", system: Turn = SYSTEM, **options: Any
) -> tuple[str, int]:
    turns = [system, *(Turn(role="user" if at % 2 == 0 else "assistant", content=text) for at, text in enumerate(rest))]
    values = {"tools": None, "usage": Usage(prompt_tokens=400, cached_tokens=150), "stable_tokens": 160, **options}
    return templates.observe(tenant, "m", turns, 1, **values)


def test_the_first_prompt_repeats_nothing_and_the_next_its_stable_part() -> None:
    templates = Templates()
    name, first = asked(templates, "How much is it? " * WORDS)
    again, second = asked(templates, "Who are you? " * WORDS)
    assert (name, first) == (again, 0)
    assert 150 <= second <= 175
    (known,) = templates.report()
    assert (known.prompts, known.tokens, known.repeated, known.cached) == (2, 800, second, 300)
    assert known.stable_tokens == 160


def test_a_conversation_that_goes_on_repeats_all_that_was_said() -> None:
    templates = Templates()
    asked(templates, "one " * WORDS)
    _, repeated = asked(templates, "one " * WORDS, "two " * WORDS, usage=Usage(prompt_tokens=700))
    assert 370 <= repeated <= 440
    assert asked(templates, "one " * WORDS, "two " * WORDS, usage=Usage(prompt_tokens=700))[1] == 700


def test_tenants_models_systems_and_tools_are_templates_of_their_own() -> None:
    templates = Templates()
    asked(templates, "hi " * WORDS)
    other = Turn(role="system", content="You sell cars. " * 40)
    for options in ({"tenant": "globex"}, {"system": other}, {"tools": [{"type": "function"}]}):
        assert asked(templates, "hi " * WORDS, **options)[1] == 0
    assert len(templates.report()) == 4
    assert {known.tenant for known in templates.report()} == {"acme", "globex"}


def test_templates_are_bounded_and_hold_no_text() -> None:
    gone: list[str] = []
    templates = Templates(gone.append, most=3)
    secret = "a secret that nobody may read"
    names = [asked(templates, secret, system=Turn(role="system", content=f"{secret} {at}"))[0] for at in range(10)]
    assert gone == names[:7]
    assert len(templates.report()) == 3
    assert secret not in repr(templates.report()) + repr(vars(templates))


@given(st.integers(0, 3000), st.integers(1, 3000), st.integers(0, 2000), st.integers(1, 5000))
def test_what_repeats_is_never_more_than_there_is(shared: int, more: int, stable: int, tokens: int) -> None:
    templates = Templates()
    text = "".join(chr(97 + at % 26) for at in range(shared))
    usage = Usage(prompt_tokens=tokens)
    asked(templates, text + "x" * more, usage=usage, stable_tokens=stable)
    _, repeated = asked(templates, text + "y" * more, usage=usage, stable_tokens=stable)
    assert 0 <= repeated <= tokens
    assert asked(templates, text + "y" * more, usage=usage, stable_tokens=stable)[1] == tokens
    assert BLOCK <= 64


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same JSON with its fields in another order."""
    if isinstance(value, list):
        return [shuffled(one, chance) for one in value]
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: shuffled(value[name], chance) for name in names}
    return value


TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "description": "Books a room.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "nights": {"type": "integer", "minimum": 1},
                "room": {"type": "string", "enum": ["single", "double"]},
                "breakfast": {"type": "boolean"},
                "arrival": {"type": "string", "format": "date"},
            },
            "required": ["room", "nights"],
            "additionalProperties": False,
        },
    },
}


def test_tools_are_the_same_bytes_whatever_the_order_of_their_fields() -> None:
    texts = set()
    for seed in range(50):
        body = {"messages": [{"role": "user", "content": "Go."}], "tools": [shuffled(TOOL, random.Random(seed))]}
        request = steady(parse_chat(json.dumps(body).encode()))
        assert request.tools == [TOOL]
        texts.add(msgspec.json.encode(request.tools))
    (text,) = texts
    assert text.startswith(b'[{"type":"function","function":{"name":"book","description":"Books a room.","parameters":')
    assert list(json.loads(text)[0]["function"]["parameters"]["properties"]) == [
        "room",
        "nights",
        "arrival",
        "breakfast",
    ]


@pytest.mark.parametrize(
    "tools", [None, [], [{}], [{"function": None}], [{"function": {"parameters": {"properties": 1}}}]]
)
def test_odd_tools_stay_what_they_are(tools: Any) -> None:
    request = msgspec.structs.replace(parse_chat({"messages": [{"role": "user", "content": "x"}]}), tools=tools)
    assert steady(request).tools == tools
