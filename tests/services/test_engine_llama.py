"""What the embedded engine does beyond what every engine must: tenants, settings, and what it refuses."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from hasten.chunks import merge_tool_calls
from hasten.compressor.domain import compress
from hasten.compressor.settings import Settings
from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress
from hasten.messages.generate import Generate
from hasten.messages.retrieve import Passage
from hasten.models import SMALL, EngineConfig, Model
from hasten.weights import folder, prepare
from hasten.worker.engines import Delta, End, EngineError
from hasten.worker.engines.llama import LlamaEngine

DATA = Path(__file__).parents[2] / ".hasten"
pytestmark = pytest.mark.asyncio(loop_scope="module")
SYSTEM = "You answer for the harbour office, briefly and in plain words. " * 8


@pytest.fixture(scope="module")
def data() -> Path:
    """The data folder with the embedded models."""
    prepare(DATA, lambda line: None)
    return DATA


def _engine(data: Path, **settings: Any) -> LlamaEngine:
    engine = msgspec.convert({"path": SMALL.engine.path, "slots": 1, **settings}, EngineConfig)
    return LlamaEngine.from_config(Model(name="llama", slug="llama", engine=engine, context_window=1024), data)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(data: Path) -> AsyncIterator[LlamaEngine]:
    """An engine with one slot, so that everybody meets in it."""
    made = _engine(data)
    await made.start()
    yield made
    await made.close()


def _request(question: str, **options: Any) -> Generate:
    turns = [Turn(role="system", content=SYSTEM), Turn(role="user", content=question)]
    return Generate(messages=turns, **{"max_tokens": 2, "temperature": 0.0, **options})


async def _answer(engine: LlamaEngine, tenant: str, request: Generate) -> tuple[str, End]:
    seen = [event async for event in engine.generate(f"{tenant}/r", request)]
    *deltas, end = seen
    assert isinstance(end, End)
    return "".join(delta.text for delta in deltas if not isinstance(delta, End)), end


async def _cached(engine: LlamaEngine, tenant: str, question: str, **options: Any) -> int:
    _, end = await _answer(engine, tenant, _request(question, **options))
    return end.usage.cached_tokens


async def test_a_prefix_is_found_by_its_own_tenant_alone(engine: LlamaEngine) -> None:
    await _cached(engine, "acme", "When does the ferry leave?")
    assert await _cached(engine, "acme", "What does a berth cost?") > 80
    assert await _cached(engine, "rival", "What does a berth cost?") == 0
    assert await _cached(engine, "rival", "When does the ferry leave?") > 80
    assert await _cached(engine, "acme", "When does the ferry leave?") == 0


async def test_a_refused_request_opens_no_door_to_another_tenants_prefix(engine: LlamaEngine) -> None:
    await _cached(engine, "acme", "When does the ferry leave?")
    with pytest.raises(EngineError):
        await _cached(engine, "rival", "When does the ferry leave?", response_format={"type": "weird"})
    assert await _cached(engine, "rival", "When does the ferry leave?") == 0


async def test_without_the_prefix_cache_nothing_is_found(data: Path) -> None:
    engine = _engine(data, llama_prefix_cache=False)
    await engine.start()
    await _cached(engine, "acme", "When does the ferry leave?")
    assert await _cached(engine, "acme", "When does the ferry leave?") == 0
    await engine.close()


async def test_what_is_refused_is_not_printed(engine: LlamaEngine, capfd: pytest.CaptureFixture[str]) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "a secret"}}}
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"properties": {"a": deep}}
    nested = {"type": "json_schema", "json_schema": {"name": "x", "schema": deep}}
    for options in (
        {"extra": {"grammar": "root ::= a secret ("}},
        {"response_format": form},
        {"response_format": nested},
        {"response_format": {"type": "a secret"}},
    ):
        with pytest.raises(EngineError) as caught:
            await _answer(engine, "acme", _request("When does the ferry leave?", **options))
        assert caught.value.code == "bad_request"
    assert await _answer(engine, "acme", _request("When does the ferry leave?"))
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.mark.parametrize(
    "pattern", ["^[A-Z]{2,5}-[0-9]{1,3}$", "^(?:red|green)+$", r"^[a\]\\x\-]\.\([0-9]$", r"^(a|b{2,}\|)c*[a\]\-]+$"]
)
async def test_a_supported_pattern_is_followed(
    engine: LlamaEngine, capfd: pytest.CaptureFixture[str], pattern: str
) -> None:
    schema = {"type": "string", "pattern": pattern}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    text, _ = await _answer(engine, "acme", _request("Give a code.", response_format=form, max_tokens=40))
    if text.endswith('"'):
        assert re.fullmatch(pattern, msgspec.json.decode(text))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= ("red" | [a-c]+) "\\n"? # a comment\n',
        'root ::= (word "," \n  word)* end?\r\nword ::= [^\\]a-]{2,5} .\n\n# the end\nend ::= "\\x41\\u00e9\\"" "x"{3}',
        'root ::=\n  "a" |\n  "b" {2000}',
        "",
    ],
)
async def test_a_grammar_that_can_be_read_is_followed(
    engine: LlamaEngine, capfd: pytest.CaptureFixture[str], grammar: str
) -> None:
    text, _ = await _answer(engine, "acme", _request("Name a colour.", extra={"grammar": grammar}, max_tokens=8))
    assert text
    assert not grammar.startswith('root ::= ("red"') or re.fullmatch(r"(red|[a-c]+)\n?", text)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("system", ["", SYSTEM])
async def test_what_a_compressor_puts_first_is_found_again_beside_other_passages(
    engine: LlamaEngine, data: Path, system: str
) -> None:
    counter = TokenizerFolder(folder(data)).load(SMALL.tokenizer)
    asked = []
    for at, text in enumerate(("The ferry leaves at nine and at noon.", "A berth costs 31 euros a night.")):
        turns = [Turn(role="system", content=system)] if system else []
        turns.append(Turn(role="user", content=f"What do I have to know, part {at}?"))
        passages = [Passage(id=f"p{at}", collection="c", document=f"d{at}", text=text)]
        wanted = Compress(messages=turns, passages=passages, tokenizer=SMALL.tokenizer, token_budget=400)
        asked.append(compress(wanted, counter, Settings().policy()))
    for one in asked:
        request = Generate(messages=one.messages, max_tokens=2, temperature=0.0)
        _, end = await _answer(engine, f"tenant{len(system)}", request)
    assert asked[0].messages[-1] != asked[1].messages[-1]
    assert end.usage.cached_tokens >= asked[1].stable_tokens > 20


async def test_tools_are_no_promise_of_a_model_whose_template_does_not_know_them(data: Path) -> None:
    """llama.cpp would leave them out of the prompt without a word."""
    config = EngineConfig(path=SMALL.engine.path, slots=1)
    model = Model(name="llama", slug="llama", engine=config, context_window=1024, capabilities=["tools", "json"])
    engine = LlamaEngine.from_config(model, data)
    await engine.start()
    try:
        assert engine.capabilities == ["json", "logprobs"]
    finally:
        await engine.close()


KNOWS_TOOLS = (
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class _WithTools(LlamaEngine):
    """The small model under a template that shows it tools, though it was not trained to call any."""

    def _params(self, xllamacpp: Any, path: Path) -> Any:
        params = super()._params(xllamacpp, path)
        params.chat_template = KNOWS_TOOLS
        return params


async def test_a_call_that_is_insisted_on_is_made_whatever_the_model_would_say(data: Path) -> None:
    config = EngineConfig(path=SMALL.engine.path, slots=1)
    model = Model(name="llama", slug="llama", engine=config, context_window=1024, capabilities=["tools"])
    engine = _WithTools.from_config(model, data)
    await engine.start()
    city = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Paris"]}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": name, "parameters": city}} for name in ("weather", "clock")]
    one_call, named = {"parallel_tool_calls": False}, {"type": "function", "function": {"name": "clock"}}
    try:
        assert "tools" in engine.capabilities
        for choice, names in (("required", {"weather", "clock"}), (named, {"clock"})):
            turns = [Turn(role="user", content="How late is it in Paris?")]
            request = Generate(messages=turns, tools=tools, tool_choice=choice, max_tokens=120, extra=one_call)
            *deltas, end = [event async for event in engine.generate("acme/r", request)]
            assert not any(delta.text for delta in deltas if isinstance(delta, Delta))
            (call,) = merge_tool_calls(one for delta in deltas for one in getattr(delta, "tool_calls", None) or [])
            assert call["function"]["name"] in names
            assert msgspec.json.decode(call["function"]["arguments"])["city"] in ("Oslo", "Paris")
            assert isinstance(end, End)
            assert end.finish_reason == "tool_calls"
    finally:
        await engine.close()


async def test_log_probabilities_beside_tools_are_refused_by_name(engine: LlamaEngine) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    request = Generate(messages=[Turn(role="user", content="Hi")], tools=tools, logprobs=True, max_tokens=1)
    with pytest.raises(EngineError) as caught:
        async for _ in engine.generate("acme/r", request):
            pass
    assert (caught.value.code, caught.value.param) == ("unsupported", "logprobs")
