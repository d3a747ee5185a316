"""Tools and response formats, asked of every engine: kept where it says that it can, refused where it does not."""

from typing import Any

import msgspec
import pytest
from engine_rig import Kind, admitted, asked, text, whole

from hasten.chunks import merge_tool_calls
from hasten.messages.failure import Failed
from hasten.worker.engines import Engine, EngineError

pytestmark = pytest.mark.asyncio(loop_scope="session")
CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Paris"]}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Tells it.", "parameters": CITY, "strict": True}
TOOLS = [{"type": "function", "function": WEATHER}]
FORMATS: list[dict[str, Any]] = [
    {"type": "json_object"},
    {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}},
]
WRITTEN = '<tool_call>\\n\\{"name": "weather", "arguments": \\{"city": "(Oslo|Paris)"\\}\\}\\n</tool_call>'
"""How a model that was trained so asks for a tool; ours was not, and is made to by a form."""


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form["type"])
async def test_json_is_json_where_it_is_promised_and_refused_elsewhere(engine: Engine, form: dict[str, Any]) -> None:
    request = asked("Give a city as JSON, such as {city: Oslo}", response_format=form, max_tokens=80)
    if "json" not in engine.capabilities:
        with pytest.raises(Failed) as caught:
            admitted(engine, request)
        assert (caught.value.failure.code, caught.value.failure.param) == ("unsupported", "response_format")
        return
    deltas, end = await whole(engine.generate("acme/r", admitted(engine, request)))
    said = "".join(delta.text for delta in deltas)
    if form["type"] == "json_schema":
        assert msgspec.json.decode(said)["city"] in ("Oslo", "Paris")
    else:
        assert isinstance(msgspec.json.decode(said), dict) if end.finish_reason == "stop" else said.startswith("{")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}], ids=str)
async def test_a_tool_is_called_where_that_is_promised_and_refused_elsewhere(engine: Engine, choice: Any) -> None:
    request = asked("How is the weather in Oslo?", tools=TOOLS, tool_choice=choice, max_tokens=120)
    if "tools" not in engine.capabilities:
        with pytest.raises(Failed) as caught:
            admitted(engine, request)
        assert (caught.value.failure.code, caught.value.failure.param) == ("unsupported", "tools")
        return
    deltas, end = await whole(engine.generate("acme/r", admitted(engine, request)))
    (call,) = merge_tool_calls([one for delta in deltas for one in delta.tool_calls or []])
    assert call["id"]
    assert call["function"]["name"] == "weather"
    assert msgspec.json.decode(call["function"]["arguments"])["city"] in ("Oslo", "Paris")
    assert end.finish_reason in ("tool_calls", "stop")
    assert not [delta.text for delta in deltas if delta.text]


async def test_an_answer_of_a_fixed_form_is_not_continued(engine: Engine) -> None:
    for options in ({"response_format": {"type": "json_object"}}, {"tools": TOOLS}):
        with pytest.raises(Failed) as caught:
            admitted(engine, asked(continues="{", **options))
        assert caught.value.failure.code == "unsupported"


@pytest.mark.parametrize("most", [0, 2])
async def test_log_probabilities_are_told_of_every_token_where_that_is_promised(engine: Engine, most: int) -> None:
    request = asked("Hello", logprobs=True, top_logprobs=most, max_tokens=12)
    if "logprobs" not in engine.capabilities:
        with pytest.raises(Failed) as caught:
            admitted(engine, request)
        assert caught.value.failure.param == "logprobs"
        return
    deltas, end = await whole(engine.generate("acme/r", admitted(engine, request)))
    told = [token for delta in deltas for token in delta.tokens]
    said = "".join(delta.text for delta in deltas)
    assert b"".join(bytes(token["bytes"]) for token in told).decode() == said
    end_token = end.finish_reason == "stop"
    assert len(told) == end.usage.completion_tokens - end_token
    assert all(token["logprob"] <= 0 and len(token["top_logprobs"]) == most for token in told)


async def test_an_option_of_openais_is_not_left_out_in_silence(kind: Kind, engine: Engine) -> None:
    if kind.engine in ("sim", "openai"):
        pytest.skip("the simulator has no model, and a server says itself what it does not do")
    for name, value in (("reasoning_effort", "low"), ("verbosity", "high"), ("web_search_options", {})):
        with pytest.raises(EngineError) as caught:
            await whole(engine.generate("acme/r", asked("Hello", extra={name: value}, max_tokens=1)))
        assert (caught.value.code, caught.value.param) == ("unsupported", name)
    assert await text(engine, asked("Hello", extra={"verbosity": "medium", "service_tier": "flex"}, max_tokens=3))


async def test_a_call_that_the_model_writes_by_itself_is_found(kind: Kind, engine: Engine) -> None:
    if "tools" not in engine.capabilities:
        pytest.skip(f"{kind.name} has no tools")
    request = asked("Weather?", tools=TOOLS, max_tokens=80, extra={"structured_outputs": {"regex": WRITTEN}})
    deltas, end = await whole(engine.generate("acme/r", request))
    (call,) = merge_tool_calls([one for delta in deltas for one in delta.tool_calls or []])
    assert call["function"]["name"] == "weather"
    assert msgspec.json.decode(call["function"]["arguments"])["city"] in ("Oslo", "Paris")
    assert end.finish_reason == "tool_calls"
    assert "tool_call" not in "".join(delta.text for delta in deltas)
    assert await text(engine, asked("Hello", tools=TOOLS))
