"""Every example runs as a user would run it, against a system with a simulated model."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.embedder import export
from hasten.messages.check import CHECK, Check, Checked
from hasten.messages.guard import GUARD, GuardSpan, GuardVerdict, GuardWindow
from hasten.messages.lookup import LOOKUP, Found, Lookup
from hasten.nats_server import free_port
from hasten.system import System, Wanted, system

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture
async def running(tmp_path: Path) -> AsyncIterator[System]:
    export.prepare(ROOT / ".hasten", print)
    (tmp_path / "models").symlink_to(ROOT / ".hasten" / "models")
    async with system(Wanted(http="127.0.0.1:0", data=tmp_path, engine="sim"), print) as made:
        await made.runtime.start(print)
        yield made
        await made.runtime.drain()
        await made.runtime.close()


async def start(name: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "examples" / name), *arguments, stdout=asyncio.subprocess.PIPE
    )


async def said(name: str, *arguments: str) -> str:
    """The one sentence with which an example refuses."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "examples" / name), *arguments, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        _, errors = await process.communicate()
    assert (process.returncode, errors.count(b"\n")) == (1, 1)
    return errors.decode()


async def run(name: str, *arguments: str) -> str:
    process = await start(name, *arguments)
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


@pytest.mark.parametrize(
    "name", ["plain_nats.py", "cache_alone.py", "publish_change.py", "invalidations.py", "lookup.py", "guard.py"]
)
async def test_without_a_server_an_example_says_so(name: str) -> None:
    given = {"publish_change.py": ("prices", "7"), "invalidations.py": ("acme",)}.get(name, ())
    assert (await said(name, f"nats://127.0.0.1:{free_port()}", *given)).startswith("no NATS server answers")


@pytest.mark.parametrize("name", ["openai_client.py", "publish_change.py", "invalidations.py"])
async def test_without_its_arguments_an_example_says_which(name: str) -> None:
    assert (await said(name)).startswith(f"usage: {name} ")


async def test_an_openai_client_without_a_gateway() -> None:
    assert "Connection error" in await said("openai_client.py", f"http://127.0.0.1:{free_port()}/v1", "key")


async def test_all_examples(running: System) -> None:
    tried = {
        "plain_nats.py": (running.nats,),
        "openai_client.py": (f"{running.http}/v1", running.key),
        "cache_alone.py": (running.nats,),
        "publish_change.py": (running.nats, "prices", "7", "new price"),
        "invalidations.py": (running.nats, "acme", "1"),
        "lookup.py": (running.nats,),
        "guard.py": (running.nats,),
    }
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(tried)
    first = await run("plain_nats.py", *tried["plain_nats.py"])
    assert first.endswith("done: miss\n")
    again = await run("plain_nats.py", *tried["plain_nats.py"])
    assert again == first.replace("done: miss", "done: exact")
    assert "completion tokens" in await run("openai_client.py", *tried["openai_client.py"])
    lines = (await run("cache_alone.py", *tried["cache_alone.py"])).splitlines()
    kinds = [line.split(":")[0].split(" (")[0] for line in lines]
    assert kinds == ["miss", "exact hit", "semantic hit", "miss", lines[4], "miss"]
    assert lines[4].startswith("invalidated 1 entries")
    assert "11 euros" in lines[5]
    await a_change_is_heard_of(running, tried)
    await a_look_up_answers(running.nats)
    await a_guard_and_a_check_answer(running.nats)


async def a_change_is_heard_of(running: System, tried: dict[str, tuple[str, ...]]) -> None:
    """A pipeline changes a row that an answer depends on, and who listens hears that the answer is gone."""
    async with Hasten.connect(running.nats, tenant="acme") as hasten:
        asked, policy = "What does the basic plan cost?", {"tags": ["prices:7"]}
        assert (await hasten.ask(asked, cache=policy)).cache == "miss"
        while (await hasten.ask(asked, cache=policy)).cache != "exact":
            await asyncio.sleep(0.05)
        listening = await start("invalidations.py", *tried["invalidations.py"])
        assert listening.stdout is not None
        assert await listening.stdout.readline() == b"listening\n"
        said = await run("publish_change.py", *tried["publish_change.py"])
        assert re.fullmatch(r"prices:7 changed: change \d+ is stored, and within a second .* is served\n", said)
        async with asyncio.timeout(60):
            heard, _ = await listening.communicate()
        assert re.fullmatch(r"1 answers gone, change: .*prices:7.*\n", heard.decode())
        assert (await hasten.ask(asked, cache=policy)).cache == "miss"


async def a_look_up_answers(url: str) -> None:
    """The retriever takes what the tool says, best first."""
    tool = await start("lookup.py", url)
    bus = await Bus.connect(url, name="test")
    try:
        assert tool.stdout is not None
        assert await tool.stdout.readline() == b"listening\n"
        asked = Lookup(query="How many Kettle K2 are in stock?")
        found = await bus.request(LOOKUP, asked, tenant="acme", lookup="stock")
        assert isinstance(found, Found)
        assert [one.id for one in found.passages] == ["k2", "t9"]
        assert found.passages[0].tags == ["stock:k2"]
    finally:
        tool.terminate()
        await tool.wait()
        await bus.close()


async def a_guard_and_a_check_answer(url: str) -> None:
    """Whole serial numbers are hidden and begun ones held back; where a price is asked for, there has to be one."""
    tool = await start("guard.py", url)
    bus = await Bus.connect(url, name="test")
    try:
        assert tool.stdout is not None
        assert await tool.stdout.readline() == b"listening\n"
        window = GuardWindow(text="It is SN-123456, not SN-12")
        verdict = await bus.request(GUARD, window, tenant="acme", rule="serials")
        assert verdict == GuardVerdict(spans=[GuardSpan(start=6, end=15)], hold=5)
        for text, passed in (("It costs 9 euros.", True), ("It is blue.", False)):
            asked = Check(question="What does it cost?", text=text)
            checked = await bus.request(CHECK, asked, tenant="acme", check="prices")
            assert isinstance(checked, Checked)
            assert checked.passed == passed
    finally:
        tool.terminate()
        await tool.wait()
        await bus.close()
