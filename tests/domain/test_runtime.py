"""The order in which services start and stop, and what happens when one of them cannot."""

import asyncio
import gc
from typing import Any

import pytest

from hasten.run import Stop, host_port, sentence, serve
from hasten.runtime import Runtime, check
from hasten.settings import SettingsError


class Part:
    """A service that writes down what is done to it."""

    def __init__(self, name: str, log: list[str], *, fails: str = "", hangs: str = "") -> None:
        self.name, self.log, self.fails, self.hangs = name, log, fails, hangs

    async def _do(self, verb: str) -> None:
        self.log.append(f"{verb} {self.name}")
        if self.hangs == verb:
            await asyncio.sleep(60)
        if self.fails == verb:
            raise SettingsError(f"{self.name} cannot {verb}")
        await asyncio.sleep(0)
        self.log.append(f"{verb.removesuffix('e')}ed {self.name}")

    async def start(self) -> None:
        await self._do("start")

    async def drain(self) -> None:
        await self._do("drain")

    async def close(self) -> None:
        await self._do("close")


def quiet(_: str) -> None:
    pass


def test_host_and_port() -> None:
    assert host_port("127.0.0.1:0", "--http") == ("127.0.0.1", 0)
    assert host_port("[::1]:80", "--http") == ("::1", 80)
    for wrong in ("8080", ":8080", "h:", "h:x", "h:70000", "h:-1"):
        with pytest.raises(SettingsError, match="--http must be HOST:PORT"):
            host_port(wrong, "--http")


async def test_stages_start_one_after_the_other_and_stop_in_reverse() -> None:
    log: list[str] = []
    a, b, c = (Part(name, log) for name in "abc")
    runtime = Runtime([{"a": a, "b": b}, {}, {"c": c}])
    await runtime.start(quiet)
    assert log.index("start b") < log.index("started a"), "a stage starts together"
    assert log.index("started a") < log.index("start c")
    assert list(runtime.units) == ["a", "b", "c"]
    log.clear()
    assert await runtime.drain()
    await runtime.close()
    assert log.index("drained c") < log.index("drain a")
    assert log.index("closed c") < log.index("close a")


async def test_a_failing_start_closes_what_was_begun_and_nothing_else() -> None:
    log: list[str] = []
    parts = {name: Part(name, log, fails="start" if name == "b" else "") for name in "abc"}
    runtime = Runtime([{"a": parts["a"]}, {"b": parts["b"]}, {"c": parts["c"]}])
    with Stop() as stop, pytest.raises(SettingsError, match="b cannot start"):
        await serve(runtime, stop, ready=lambda: log.append("ready"))
    assert "ready" not in log
    assert "start c" not in log
    assert "close c" not in log
    assert {"closed a", "closed b"} <= set(log)


async def test_a_failing_start_stops_its_neighbours() -> None:
    log: list[str] = []
    runtime = Runtime([{"a": Part("a", log, hangs="start"), "b": Part("b", log, fails="start")}])
    with pytest.raises(SettingsError):
        await asyncio.wait_for(runtime.start(quiet), 5)


async def test_one_that_cannot_close_does_not_keep_the_others() -> None:
    log: list[str] = []
    runtime = Runtime([{"a": Part("a", log)}, {"b": Part("b", log, fails="close")}])
    await runtime.start(quiet)
    await runtime.close()
    assert "closed a" in log


async def test_a_drain_is_bounded_and_says_so() -> None:
    log: list[str] = []
    runtime = Runtime([{"a": Part("a", log, hangs="drain")}])
    await runtime.start(quiet)
    assert not await runtime.drain(timeout_s=0.05)


async def test_a_stop_during_the_start_ends_it() -> None:
    log: list[str] = []
    runtime = Runtime([{"a": Part("a", log, hangs="start")}])
    with Stop() as stop:
        asyncio.get_running_loop().call_later(0.05, stop.ask)
        code = await asyncio.wait_for(serve(runtime, stop, ready=lambda: log.append("ready")), 5)
    assert code == 0
    assert log == ["start a", "close a", "closed a"]


async def test_a_second_stop_ends_the_drain() -> None:
    log: list[str] = []
    runtime = Runtime([{"a": Part("a", log, hangs="drain")}])
    with Stop() as stop:
        loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(serve(runtime, stop, ready=stop.ask))
        loop.call_later(0.1, stop.ask)
        assert await asyncio.wait_for(serving, 5) == 1
    assert "closed a" in log


async def test_what_the_start_has_made_is_left_out_of_garbage_collections() -> None:
    stop, frozen = Stop(), list[int]()

    def ready() -> None:
        frozen.append(gc.get_freeze_count())
        stop.ask()

    gc.unfreeze()
    try:
        assert await serve(Runtime([]), stop, ready=ready) == 0
    finally:
        gc.unfreeze()
    assert frozen[0] > 0


def test_only_what_a_person_can_put_right_is_a_sentence() -> None:
    assert sentence(SettingsError("the config is wrong")) == "the config is wrong"
    assert sentence(PermissionError(13, "Permission denied", "x")) is not None
    assert sentence(KeyError("x")) is None
    assert sentence(RuntimeError("ours")) is None


@pytest.mark.parametrize(
    ("service", "section", "problem"),
    [
        ("orchestrator", {"guard": [{"name": "a", "pattern": "("}]}, "unterminated"),
        ("orchestrator", {"guard": [{"name": "a", "call": "nowhere:at_all"}]}, "on PYTHONPATH"),
        ("orchestrator", {"checks": [{"name": "a", "call": "nowhere:at_all"}]}, "on PYTHONPATH"),
        ("retriever", {"lookups": {"a": {"call": "nowhere:at_all"}}}, "on PYTHONPATH"),
    ],
)
def test_what_a_service_could_not_be_built_with_is_refused_before_anything_slow_has_begun(
    service: str, section: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        check({service: section}, [service])
