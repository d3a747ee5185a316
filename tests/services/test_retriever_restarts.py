"""The retriever when it, its server or its stream is lost: nothing is lost with it, and it goes on where it was."""

import asyncio
import contextlib
from pathlib import Path

from patience import until
from retriever_rig import embedder, numbers, prices, running, vectors_for

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.freshness import Freshness
from hasten.messages.change import CHANGE, STREAM, Change
from hasten.messages.failure import Failure
from hasten.messages.retrieve import RETRIEVE, Document, Retrieve
from hasten.nats_server import NatsServer
from hasten.retriever.intake import DURABLE
from hasten.retriever.service import Retriever
from hasten.retriever.settings import Settings


async def test_a_retriever_waits_for_its_embedder_at_the_start(bus: Bus, tmp_path: Path) -> None:
    retriever = Retriever(Settings(), bus, vectors_for(":memory:", tmp_path))
    starting = asyncio.create_task(retriever.start())
    await asyncio.sleep(0.3)
    assert not starting.done()
    async with embedder(bus):
        await starting
        await retriever.drain()
        await retriever.close()


async def test_a_restart_goes_on_where_it_stopped(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            await rig.put(Document(id="a", text="the first fee"))
        words.texts.clear()
        sent = [await rig.send(Document(id=name, text=f"the {name} fee")) for name in ("b", "c")]
        change = await bus.store(CHANGE, Change(table="t"), source="shop")
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            await asyncio.gather(*(rig.applied(sequence) for sequence in sent))
            await until(lambda: rig.retriever.report()["applied"] == change)
            assert {one.document for one in await rig.found("fee")} == {"a", "b", "c"}
            assert not any("first" in text for text in words.texts)


async def test_replicas_share_the_work_and_one_that_dies_loses_nothing(bus: Bus, tmp_path: Path) -> None:
    vectors = vectors_for(":memory:", tmp_path, keep=True)
    async with embedder(bus) as words:
        words.delay_s = 0.02
        async with running(bus, tmp_path, vectors=vectors, words=words, ack_wait_s=2.0) as one:
            other = Retriever(Settings(batch=4, ack_wait_s=2.0), bus, vectors)
            await other.start()
            sent = [await one.send(Document(id=f"d{n}", text=f"fee number {n}")) for n in range(60)]
            await until(lambda: len(one.heard) > 15 and other._intake.holding)
            await other.close()
            await until(lambda: one.retriever.report()["applied"] >= sent[-1])
            assert {hit.document for hit in await one.found("fee", limit=100)} == {f"d{n}" for n in range(60)}
    await vectors.inner.close()


async def test_what_was_read_while_a_purged_version_was_worked_on_is_stale_when_it_is_there(
    bus: Bus, tmp_path: Path
) -> None:
    """The purge moves the acknowledgement floor, and the other replica takes the version for applied."""
    vectors = vectors_for(":memory:", tmp_path, keep=True)
    view = Freshness(bus)
    await view.start()
    async with embedder(bus) as words, running(bus, tmp_path, vectors=vectors, words=words) as one:
        other = Retriever(Settings(poll_s=0.05), bus, vectors)
        await other.start()
        await one.put(prices(1))
        words.delay_s = 0.5
        sequence = await one.send(prices(2))
        await until(lambda: one.retriever._intake.holding or other._intake.holding)
        await bus.js.purge_stream(STREAM)
        await until(lambda: sequence in (one.retriever._intake.applied, other._intake.applied))
        assert numbers(await one.found("fee")) == {1}
        tags = ["document:help/prices", "collection:help"]
        await one.applied(sequence)
        assert numbers(await one.found("fee")) == {2}
        await until(lambda: view.applied > sequence)
        assert not view.table.fresh("acme", tags[:1], sequence)
        assert not view.table.fresh("acme", tags[1:], sequence)
        await other.close()
    await view.close()
    await vectors.inner.close()


async def test_a_lost_store_is_filled_again_from_the_stream(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path / "one", url="embedded", words=words) as rig:
            await rig.put(prices(1))
            gone = await rig.put(Document(id="gone", text="fee"))
            last = await rig.put(Document(id="gone", op="delete"))
        async with running(bus, tmp_path / "two", url="embedded", words=words) as rig:
            await until(lambda: rig.retriever.report()["applied"] == last.sequence)
            assert gone.error is None
            assert [one.document for one in await rig.found("fee", limit=20)] == ["prices"] * 3


async def test_a_stream_made_anew_counts_again_and_keeps_what_is_indexed(bus: Bus, tmp_path: Path) -> None:
    async with embedder(bus) as words:
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            for number in range(5):
                await rig.put(prices(number))
            await rig.put(Document(id="kept", text="another fee"))
        await bus.js.delete_stream(STREAM)
        async with running(bus, tmp_path, url="embedded", words=words) as rig:
            assert {one.document for one in await rig.found("fee", limit=20)} == {"prices", "kept"}
            event = await rig.put(prices(77))
            assert event.sequence == 1
            assert numbers([one for one in await rig.found("fee", limit=20) if one.document == "prices"]) == {77}


async def test_a_consumer_that_vanished_is_made_again(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(prices(1))
        await bus.js.delete_consumer(STREAM, DURABLE)
        event = await rig.put(prices(2))
        await until(lambda: rig.retriever.report()["applied"] == event.sequence)
        assert numbers(await rig.found("fee")) == {2}


async def test_a_server_that_restarts_in_the_middle_loses_nothing(nats_server: NatsServer, tmp_path: Path) -> None:
    bus = await Bus.connect(nats_server.url)
    async with running(bus, tmp_path, ack_wait_s=2.0, embed_timeout_s=3.0) as rig:
        rig.words.delay_s = 0.05
        sent = [await rig.send(Document(id=f"d{n}", text=f"fee number {n}")) for n in range(30)]
        await until(lambda: len(rig.heard) > 3)
        await nats_server.stop(kill=True)
        await asyncio.sleep(0.2)
        await nats_server.start()
        await until(lambda: rig.retriever.report()["applied"] >= sent[-1])
        assert {one.document for one in await rig.found("fee", limit=50)} == {f"d{n}" for n in range(30)}
    await bus.close()


async def test_a_drain_finishes_what_has_begun_and_gives_the_rest_back(bus: Bus, tmp_path: Path) -> None:
    vectors = vectors_for(":memory:", tmp_path, keep=True)
    async with embedder(bus) as words:
        words.delay_s = 0.1
        async with running(bus, tmp_path, vectors=vectors, words=words, parallel=1) as rig:
            sent = [await rig.send(Document(id=f"d{n}", text=f"fee {n}")) for n in range(12)]
            await until(lambda: rig.heard)
        drained = len(rig.heard)
        assert 0 < drained < 12
        words.delay_s = 0.0
        async with running(bus, tmp_path, vectors=vectors, words=words) as rig:
            await until(lambda: rig.retriever.report()["applied"] == sent[-1])
            await until(lambda: len(rig.heard) == 12 - drained)
    await vectors.inner.close()


async def test_closing_a_retriever_that_never_started_is_quiet(bus: Bus, tmp_path: Path) -> None:
    await Retriever(Settings(), bus, vectors_for("embedded", tmp_path)).close()
    retriever = Retriever(Settings(), bus, vectors_for(":memory:", tmp_path))
    starting = asyncio.create_task(retriever.start())
    await asyncio.sleep(0.05)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await retriever.close()
    ask = Retrieve(query="fee", knowledge=["help"])
    reply = await bus.request(RETRIEVE, ask, tenant="acme", deadline_ms=now_ms() + 2000)
    assert (type(reply), reply.code) == (Failure, "unavailable"), "neither of them listens any more"
    left = [task for task in asyncio.all_tasks() if "Retriever" in getattr(task.get_coro(), "__qualname__", "")]
    assert left == []
