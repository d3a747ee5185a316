"""What every engine must do, asked of each: the simulator, llama.cpp in process, and llama.cpp behind HTTP.

The last one is a real server on its own port. Weights are those in the checkout's data folder, made there if missing.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import SMALL, EngineConfig, Model
from hasten.settings import SettingsError
from hasten.weights import WeightsMissing, folder, prepare
from hasten.worker.engines import Delta, End, Engine, EngineError, engine_class

DATA = Path(__file__).parents[2] / ".hasten"
SLOTS, WINDOW = 2, 1024
MakeEngine = Callable[[], Engine]
pytestmark = pytest.mark.asyncio(loop_scope="module")


def _llama() -> Model:
    engine = EngineConfig(kind="llama", path=SMALL.engine.path, slots=SLOTS)
    return Model(name="llama", slug="llama", engine=engine, context_window=WINDOW)


@pytest.fixture(scope="session")
def data() -> Path:
    """The data folder with the embedded models."""
    prepare(DATA, lambda line: None)
    return DATA


@pytest.fixture(scope="module")
def address(data: Path) -> Iterator[str]:
    """A llama.cpp server of its own, on 127.0.0.1."""
    xllamacpp = pytest.importorskip("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(folder(data) / SMALL.engine.path)
    params.n_parallel, params.n_ctx, params.n_batch, params.verbosity = SLOTS, SLOTS * WINDOW, 64, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def _model(kind: str, request: pytest.FixtureRequest) -> Model:
    if kind == "llama":
        return _llama()
    if kind == "sim":
        config = EngineConfig(kind="sim", slots=SLOTS, sim_decode_per_s=200, sim_prefill_per_s=2000)
    else:
        url = request.getfixturevalue("address")
        config = EngineConfig(kind="openai", slots=SLOTS, url=url, continues=True)
    return Model(name=kind, slug=kind, engine=config, context_window=WINDOW, capabilities=["json"])


@pytest.fixture(scope="module", params=["sim", "llama", "openai"])
def make(request: pytest.FixtureRequest, data: Path) -> MakeEngine:
    """Makes an engine of each kind that has not been started."""
    model = _model(request.param, request)
    return lambda: engine_class(request.param).from_config(model, data)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(make: MakeEngine) -> AsyncIterator[Engine]:
    """An engine that has been started, the same for all tests of its kind: each must leave it well."""
    made = make()
    await made.start()
    yield made
    await made.close()


def _request(text: str = "Name three colours of the rainbow.", **options: Any) -> Generate:
    options = {"max_tokens": 12, "temperature": 0.0, **options}
    return Generate(messages=[Turn(role="user", content=text)], **options)


async def _all(events: AsyncGenerator[Delta | End]) -> tuple[list[Delta], End]:
    seen = [event async for event in events]
    deltas = [event for event in seen if isinstance(event, Delta)]
    (end,) = [event for event in seen if isinstance(event, End)]
    assert seen[-1] is end
    return deltas, end


async def _text(engine: Engine, request: Generate, request_id: str = "r") -> str:
    deltas, _ = await _all(engine.generate(request_id, request))
    return "".join(delta.text for delta in deltas)


async def test_deltas_come_one_by_one_and_end_with_usage(engine: Engine) -> None:
    deltas, end = await _all(engine.generate("r", _request()))
    assert len(deltas) > 3
    assert all(delta.text for delta in deltas)
    assert end.usage.prompt_tokens > 0
    assert 0 < end.usage.completion_tokens <= 12
    assert 0 <= end.usage.cached_tokens < end.usage.prompt_tokens


async def test_max_tokens_ends_with_length(engine: Engine) -> None:
    _, end = await _all(engine.generate("r", _request(max_tokens=5)))
    assert end.finish_reason == "length"
    assert end.usage.completion_tokens == 5


async def test_a_stop_sequence_ends_before_itself(engine: Engine) -> None:
    whole = await _text(engine, _request())
    stop = whole.split()[3]
    deltas, end = await _all(engine.generate("r", _request(stop=[stop])))
    said = "".join(delta.text for delta in deltas)
    assert end.finish_reason == "stop"
    assert stop not in said
    assert whole.startswith(said)


async def test_greedy_decoding_says_the_same_again(engine: Engine) -> None:
    assert await _text(engine, _request()) == await _text(engine, _request())


async def test_a_seed_says_the_same_again(engine: Engine) -> None:
    asked = _request(temperature=1.0, seed=11)
    assert await _text(engine, asked) == await _text(engine, asked)


async def test_a_prompt_seen_before_is_cached(engine: Engine) -> None:
    request = _request("Colours, colours, colours. " * 8)
    await _text(engine, request)
    _, end = await _all(engine.generate("r", request))
    assert end.usage.cached_tokens > end.usage.prompt_tokens // 2


async def test_no_character_is_ever_cut(engine: Engine) -> None:
    for tokens in (1, 2, 3, 5, 8):
        request = _request("Repeat this: \U0001f600\U0001f389日本語 नमस्ते \U0001f469\u200d\U0001f467", max_tokens=tokens)
        deltas, _ = await _all(engine.generate("r", request))
        for delta in deltas:
            assert "\ufffd" not in delta.text
            delta.text.encode()


async def test_an_answer_goes_on_where_it_was_left(engine: Engine) -> None:
    assert engine.continues
    deltas, _ = await _all(engine.generate("r", _request("Count from one to ten in words.", max_tokens=24)))
    whole = "".join(delta.text for delta in deltas)
    for keep in (1, len(deltas) // 2, len(deltas) - 1):
        begun = "".join(delta.text for delta in deltas[:keep])
        request = _request("Count from one to ten in words.", max_tokens=24 - keep, continues=begun)
        assert begun + await _text(engine, request) == whole


async def test_every_role_is_understood(engine: Engine) -> None:
    turns = [
        Turn(role="user", content="hi"),
        Turn(role="developer", content="Use metric units."),
        Turn(role="assistant", content="Hello."),
        Turn(role="user", content=[{"type": "text", "text": "how tall is it?"}]),
    ]
    _, end = await _all(engine.generate("r", Generate(messages=turns, max_tokens=3, temperature=0.0)))
    assert end.usage.completion_tokens == 3


async def test_generations_in_all_slots_are_kept_apart(engine: Engine) -> None:
    asked = [_request(f"Say the number {word} again and again.") for word in ("seven", "nine")]
    alone = [await _text(engine, one) for one in asked]
    both = await asyncio.gather(*(_text(engine, one, f"r{at}") for at, one in enumerate(asked)))
    assert both[0] != both[1]
    assert [len(text) > 0 for text in both] == [True, True]
    assert [text[:4] for text in both] == [text[:4] for text in alone]


async def test_a_prompt_beyond_the_window_is_named_as_such(engine: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        await _text(engine, _request("word " * (WINDOW + 200)))
    assert caught.value.code == "context_overflow"
    assert "word" not in caught.value.detail
    assert await _text(engine, _request())


async def _until_cancelled(events: AsyncGenerator[Delta | End]) -> None:
    with pytest.raises(EngineError) as caught:
        await _all(events)
    assert caught.value.code == "cancelled"


@pytest.mark.parametrize("deltas", [0, 1, 4])
async def test_an_abort_frees_the_slot_in_prefill_and_in_decode(engine: Engine, deltas: int) -> None:
    for at in range(engine.slots + 1):
        request = _request(f"{deltas} {at} colours of the rainbow " * 20, max_tokens=400)
        async with aclosing(engine.generate("r", request)) as events:
            for _ in range(deltas):
                await anext(events)
            rest = asyncio.create_task(_until_cancelled(events))
            await asyncio.sleep(0.02)
            await engine.abort("r")
            await rest
        async with asyncio.timeout(60):
            await engine.drain()
    async with asyncio.timeout(60):
        assert await _text(engine, _request())


async def test_an_abort_of_nothing_is_nothing(engine: Engine) -> None:
    await engine.abort("never heard of")
    assert await _text(engine, _request())
    await engine.abort("r")


async def test_leaving_the_iterator_early_is_an_abort(engine: Engine) -> None:
    async with aclosing(engine.generate("r", _request(max_tokens=400))) as events:
        await anext(events)
    async with asyncio.timeout(60):
        await engine.drain()
        assert await _text(engine, _request())


async def test_a_reader_that_is_cancelled_twice_leaves_nothing_behind(engine: Engine) -> None:
    for at in range(2 * engine.slots):
        task = asyncio.create_task(_text(engine, _request(max_tokens=400), f"r{at}"))
        await asyncio.sleep(0.03)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(60):
        await engine.drain()
        assert await _text(engine, _request())


async def test_a_drain_waits_for_what_is_running(engine: Engine) -> None:
    running = asyncio.create_task(_text(engine, _request(max_tokens=20)))
    await asyncio.sleep(0.02)
    async with asyncio.timeout(60):
        await engine.drain()
        assert await running


async def test_a_close_ends_what_is_running_with_an_error(make: MakeEngine) -> None:
    engine = make()
    await engine.start()
    running = asyncio.create_task(_text(engine, _request(max_tokens=400)))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(60):
        await engine.close()
        with pytest.raises(EngineError):
            await running
        await engine.close()


async def test_a_close_survives_a_start_that_never_was_or_was_given_up(make: MakeEngine) -> None:
    async with asyncio.timeout(60):
        await make().close()
    engine = make()
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    async with asyncio.timeout(60):
        await engine.close()


async def test_json_is_json_where_it_is_promised(engine: Engine) -> None:
    if "json" not in engine.capabilities:
        pytest.skip("this engine does not promise it")
    schema = {"type": "object", "properties": {"fruit": {"enum": ["apple", "pear"]}}, "required": ["fruit"]}
    form = {"type": "json_schema", "json_schema": {"name": "fruit", "schema": schema}}
    request = _request("Give one fruit as JSON", response_format=form, max_tokens=60)
    assert msgspec.json.decode(await _text(engine, request))["fruit"] in ("apple", "pear")


async def test_options_we_do_not_know_reach_the_engine_or_are_left_out(engine: Engine) -> None:
    extra = {"top_k": 1, "no_such_option": {"x": 1}, "stream": False, "id_slot": 99, "n": 3}
    assert await _text(engine, _request(extra=extra))


async def test_a_missing_or_broken_model_file_is_one_sentence(tmp_path: Path) -> None:
    llama = engine_class("llama").from_config(_llama(), tmp_path)
    with pytest.raises(WeightsMissing, match="run `hasten models fetch`"):
        await llama.start()
    await llama.close()
    folder(tmp_path).mkdir()
    (folder(tmp_path) / SMALL.engine.path).write_bytes(b"GGUF nothing of the kind")
    llama = engine_class("llama").from_config(_llama(), tmp_path)
    with pytest.raises(SettingsError, match="cannot load"):
        await llama.start()
    await llama.close()
