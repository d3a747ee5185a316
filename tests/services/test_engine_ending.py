"""How generations end before their time, asked of every engine: aborts, readers that leave, drains, closes, crashes."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import psutil
import pytest
from engine_rig import ENDLESS, PATIENCE_S, Kind, asked, refused, text, vllm_process
from model_server import ModelServer

from hasten.worker.engines import Delta, End, Engine, EngineError

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]


async def _cancelled(events: AsyncGenerator[Delta | End]) -> None:
    with pytest.raises(EngineError) as caught:
        async for _ in events:
            pass
    assert caught.value.code == "cancelled"


@contextlib.asynccontextmanager
async def _generating(engine: Engine, request_id: str, words: str = "Count for ever.") -> AsyncGenerator[Engine]:
    """An endless generation that has begun, and is aborted at the end; it must not have ended by itself."""
    async with aclosing(engine.generate(request_id, asked(words, **ENDLESS))) as events:
        await anext(events)
        rest = asyncio.create_task(_cancelled(events))
        try:
            yield engine
            assert not rest.done(), "the other generation should have gone on for long"
        finally:
            await engine.abort(request_id)
            await rest


@pytest.mark.parametrize("deltas", [0, 1])
async def test_an_abort_frees_the_slot_in_prefill_and_in_decode(slow: Engine, deltas: int) -> None:
    """All slots but one stay taken for long, so what comes next can only have the one that was freed."""
    words = f"{deltas} colours of the rainbow " * (40 if deltas else 400)
    async with contextlib.AsyncExitStack() as others:
        for at in range(slow.slots - 1):
            await others.enter_async_context(_generating(slow, f"acme/other{at}"))
        async with aclosing(slow.generate("acme/r", asked(words, **ENDLESS))) as events:
            for _ in range(deltas):
                await anext(events)
            rest = asyncio.create_task(_cancelled(events))
            await asyncio.sleep(0)
            await slow.abort("acme/r")
            await rest
        async with asyncio.timeout(PATIENCE_S):
            assert await text(slow, asked(max_tokens=1), "acme/next")
    async with asyncio.timeout(PATIENCE_S):
        await slow.drain()


async def test_an_abort_of_nothing_is_nothing(engine: Engine) -> None:
    await engine.abort("acme/never heard of")
    assert await text(engine, asked())
    await engine.abort("acme/r")


async def test_leaving_the_iterator_early_is_an_abort(slow: Engine) -> None:
    async with aclosing(slow.generate("acme/r", asked(**ENDLESS))) as events:
        await anext(events)
    async with asyncio.timeout(PATIENCE_S):
        await slow.drain()
        assert await text(slow, asked(max_tokens=1))


async def test_a_reader_that_is_cancelled_twice_leaves_nothing_behind(slow: Engine) -> None:
    for at in range(2 * slow.slots):
        task = asyncio.create_task(text(slow, asked(**ENDLESS), f"acme/{at}"))
        await asyncio.sleep(0.03)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        (left,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(left, asyncio.CancelledError)
    async with asyncio.timeout(PATIENCE_S):
        await slow.drain()
        assert await text(slow, asked(max_tokens=1))


async def test_a_drain_waits_for_what_is_running(engine: Engine) -> None:
    async with aclosing(engine.generate("acme/r", asked(max_tokens=20))) as events:
        await anext(events)
        drained = asyncio.create_task(engine.drain())
        rest = [event async for event in events]
    async with asyncio.timeout(PATIENCE_S):
        await drained
    assert isinstance(rest[-1], End)


def _held() -> dict[str, set[object]]:
    """What an engine may leave behind in this process: threads of its own, processes, open ports, tasks."""
    own = psutil.Process()
    listening = {each.laddr for each in own.net_connections(kind="tcp") if each.status == psutil.CONN_LISTEN}
    connected = {each.laddr for each in own.net_connections(kind="tcp") if each.status == psutil.CONN_ESTABLISHED}
    threads = {one.ident for one in threading.enumerate() if not one.name.startswith("asyncio_")}
    children = {child.pid for child in own.children(recursive=True) if not _is_passing(child)}
    return {
        "ports": set(listening),
        "connections": set(connected),
        "threads": set(threads),
        "processes": set(children),
        "tasks": set(asyncio.all_tasks()),
    }


def _is_passing(child: psutil.Process) -> bool:
    """Whether it is Python's own watcher, or has just ended."""
    try:
        return child.status() == psutil.STATUS_ZOMBIE or "resource_tracker" in " ".join(child.cmdline())
    except psutil.NoSuchProcess:
        return True


async def _left(before: dict[str, set[object]]) -> dict[str, set[object]]:
    """What is there now and was not before, once it has had its time to go."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while any(now - before[name] for name, now in _held().items()):
                await asyncio.sleep(0.02)
    return {name: more for name, now in _held().items() if (more := now - before[name])}


async def test_a_close_ends_what_is_running_and_leaves_nothing(kind: Kind) -> None:
    before = _held()
    engine = kind.make(sim_decode_per_s=0.1)
    await engine.start()
    said = asyncio.Event()

    async def read() -> None:
        async for _ in engine.generate("acme/r", asked(**ENDLESS)):
            said.set()

    running = asyncio.create_task(read())
    await said.wait()
    async with asyncio.timeout(PATIENCE_S):
        await engine.close()
        with pytest.raises(EngineError):
            await running
        await engine.close()
    assert await _left(before) == {}
    if kind.name != "sim":
        assert (await refused(engine, asked())).code == "unavailable"


async def test_a_close_survives_a_start_that_never_was_or_was_given_up(kind: Kind) -> None:
    before = _held()
    async with asyncio.timeout(PATIENCE_S):
        await kind.make().close()
    engine = kind.make()
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    async with asyncio.timeout(3 * PATIENCE_S):
        await engine.close()
    assert await _left(before) == {}
    async with asyncio.timeout(3 * PATIENCE_S):
        again = kind.make()
        await again.start()
        assert await text(again, asked(max_tokens=1))
        await again.close()


async def _error(events: AsyncGenerator[Delta | End]) -> Exception:
    """What a generation ends with that must not end well."""
    try:
        async for event in events:
            assert isinstance(event, Delta)
    except AssertionError:
        raise
    except Exception as error:
        return error
    pytest.fail("it ended as if nothing had happened")


async def test_an_engine_that_crashes_says_so_and_can_be_started_anew(kind: Kind) -> None:
    if kind.name in ("sim", "llama"):
        pytest.skip("it runs in this process: a crash is one of the worker's, see tests/processes")
    server = await ModelServer(kind.server_command).start() if kind.server_command else None
    engine = kind.make(**({"url": server.url} if server else {}))
    await engine.start()
    events = engine.generate("acme/r", asked(**ENDLESS))
    assert isinstance(await anext(events), Delta)
    await server.kill() if server else vllm_process().kill()
    error = await _error(events)
    if server:
        assert isinstance(error, EngineError)
        assert error.code == "upstream"
        assert (await refused(engine, asked())).code == "upstream"
        await server.start()
        assert await text(engine, asked(max_tokens=1))
    else:
        assert not isinstance(error, EngineError), "the worker must hear that its engine is gone"
    await engine.close()
    if server:
        await server.kill()


async def test_an_engine_that_hangs_is_given_up_and_its_slot_with_it(kind: Kind) -> None:
    if kind.name in ("sim", "llama"):
        pytest.skip("it runs in this process")
    server = await ModelServer(kind.server_command).start() if kind.server_command else None
    engine = kind.make(between_tokens_timeout_s=2.0, **({"url": server.url} if server else {}))
    await engine.start()
    process = None if server else vllm_process()
    events = engine.generate("acme/r", asked(**ENDLESS))
    assert isinstance(await anext(events), Delta)
    server.freeze() if server else process.suspend()  # type: ignore[union-attr]
    error = await _error(events)
    assert isinstance(error, EngineError)
    assert error.code == "upstream"
    async with asyncio.timeout(PATIENCE_S):
        await engine.drain()
        server.thaw() if server else process.resume()  # type: ignore[union-attr]
        if server:
            await engine.close()
            engine = kind.make(url=server.url)
            await engine.start()
        assert await text(engine, asked(max_tokens=1))
    await engine.close()
    if server:
        await server.kill()
