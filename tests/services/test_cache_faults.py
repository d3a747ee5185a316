"""The cache when its store or the embedder fails: misses, and never a wrong answer or a lost promise."""

import asyncio
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import nats.errors
import numpy as np
import pytest
from cache_rig import DIM, Broken, Caller, Shared, cold, missed, running, until, vector

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.cache.settings import Settings
from hasten.cache.shelf import Shelf
from hasten.messages.cache import CACHE_LOOKUP, INVALIDATED, CacheHit, Invalidation, Stored
from hasten.messages.change import CHANGE, Change
from hasten.service import Service
from hasten.vectors.opening import store
from hasten.vectors.store import StoreError, VectorStore, Where


async def test_a_broken_store_makes_misses_and_no_failure(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    broken: Any = Broken(vectors)
    async with running(bus, broken, sweep_s=0.05) as cache:
        stored = await acme.put("k")
        await acme.put("kept in memory")
        await asyncio.sleep(0)
        broken.broken = True
        assert isinstance(await acme.exact("kept in memory"), CacheHit)
        await cold(cache)
        assert missed(await acme.exact("k")) == "unavailable"
        assert missed(await acme.near()) == "unavailable"
        assert (await acme.put("k2")).reason == "unavailable"
        assert (await acme.invalidate(dry_run=True, everything=True)).code == "unavailable"
        assert (await acme.invalidate(entries=[stored.entry_id])).sequence > 0, "unservable all the same"
        broken.broken = False
        assert missed(await acme.exact("k")) == "stale"
        await acme.put("k3")
        assert isinstance(await acme.exact("k3"), CacheHit)


async def test_no_question_and_no_answer_reaches_the_log(
    bus: Bus, vectors: VectorStore, acme: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broken: Any = Broken(vectors)
    secret, answer = "My IBAN is NO00 1234 5678 901, which bank is it?", "It is the Bank of Nowhere"
    async with running(bus, broken, sweep_s=0.05):
        stored = await acme.put("k", secret, answer, tags=["prices:7"])
        await acme.near(secret)
        await acme.near(secret, vector=b"abc")
        await bus.request(CACHE_LOOKUP, {"key": ["k"], "text": secret}, tenant="acme")
        await acme.invalidate(entries=[stored.entry_id], reject=secret)
        broken.broken = True
        await acme.put("k", secret, answer)
        await acme.exact("absent")
        await acme.near(secret)
        await acme.invalidate(tags=["prices:7"])
    text = caplog.text
    assert "miss" in text, "it does log"
    assert not [word for word in ("IBAN", "NO00", "Nowhere") if word in text]


async def test_a_slow_store_is_a_miss(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    class Slow(Shared):
        async def get(self, ids: list[str]) -> Any:
            await asyncio.sleep(30)

    slow: Any = Slow(vectors)
    async with running(bus, slow, store_timeout_s=0.1):
        assert missed(await acme.exact("k")) == "unavailable"


class Hanging(Shared):
    """A store of which no call but opening and closing ever ends while it `hangs`."""

    hangs = False

    def __getattr__(self, name: str) -> Any:
        async def hang(*_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

        return hang if self.hangs else super().__getattr__(name)


async def test_an_invalidation_replies_though_the_store_hangs(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    hanging: Any = Hanging(vectors)
    replies: list[Any] = []

    async def stored() -> bool:
        return isinstance(await acme.put("k", tags=["prices:7"]), Stored)

    async def in_time() -> bool:
        replies.append(await acme.exact("k"))
        return missed(replies[-1]) != "unavailable"

    async with running(bus, hanging, store_timeout_s=0.2, sweep_s=60):
        await until(stored)
        hanging.hangs = True
        done = await acme.invalidate(tags=["prices:7"])
        assert isinstance(done, Invalidation)
        assert (done.sequence > 0, done.entries) == (True, 0)
        assert (await acme.invalidate(tags=["prices:7"], dry_run=True)).code == "unavailable"
        assert (await acme.invalidate(entries=[str(uuid.uuid4())], reject="y")).code == "unavailable"
        hanging.hangs = False
        await until(in_time)
        assert missed(replies[-1]) == "stale"


async def test_a_lost_announcement_does_not_end_the_sweeping(
    bus: Bus, vectors: VectorStore, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, lost = bus.publish, list[Any]()

    async def unsent(topic: Any, *body: Any, **named: Any) -> None:
        if topic is INVALIDATED and not lost:
            lost.append(body)
            raise nats.errors.OutboundBufferLimitError
        await publish(topic, *body, **named)

    async def empty() -> bool:
        return await vectors.count() == 0

    monkeypatch.setattr(bus, "publish", unsent)
    async with running(bus, vectors):
        for key in range(2):
            await acme.put(f"k{key}", tags=[f"prices:{key}"], vector=None)
            await bus.store(CHANGE, Change(table="prices", key=key), source="shop")
            await until(empty)
        assert lost


async def test_deletions_that_take_long_go_on_after_the_reply(
    bus: Bus, vectors: VectorStore, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Shared):
        async def delete(self, **named: Any) -> int:
            await asyncio.sleep(0.2)
            return await vectors.delete(**named)

    monkeypatch.setattr("hasten.cache.shelf.BATCH", 1)
    heard: list[int] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, tokens: heard.append(event.entries))
    await listener.start()
    slow: Any = Slow(vectors)
    async with running(bus, slow, store_timeout_s=3.4, sweep_s=60) as cache:
        for number in range(18):
            await acme.put(f"k{number}", tags=["prices:7"])
        done = await acme.invalidate(tags=["prices:7"])
        assert done.entries < 18
        assert missed(await acme.exact("k0")) in ("stale", "absent")

        async def told() -> bool:
            return bool(heard)

        await until(told)
        assert heard == [18]
        assert (await vectors.count(), cache.report()["invalidated"]) == (0, 18)
    await listener.drain()


async def test_no_call_to_a_store_that_hangs_is_waited_for_without_end(
    vectors: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasten.cache.shelf.TIDYING_S", 0.05)
    hanging: Any = Hanging(vectors)
    shelf = Shelf(hanging, Settings(dim=DIM, store_timeout_s=0.05))
    await shelf.open()
    hanging.hangs = True
    for call in (
        shelf.get("acme", "k", lambda entry: True),
        shelf.find("acme", ["x"]),
        shelf.list([Where()], 10, 0.0),
        shelf.remove(Where(), Counter()),
        shelf.remove(Where(), Counter(), patient=True),
        shelf.expire(0.0),
        shelf.shrink(0.0),
    ):
        with pytest.raises(StoreError, match="too long"):
            async with asyncio.timeout(20):
                await call


async def test_vectors_of_another_width_are_named_at_the_start(bus: Bus, tmp_path: Path) -> None:
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    async with running(bus, shared):
        pass
    wider = Cache(Settings(dim=768), bus, shared)
    with pytest.raises(StoreError, match=r"8.*768|768.*8"):
        await wider.start()
    await wider.close()


async def test_an_embedder_of_another_width_is_named_at_the_start(bus: Bus, vectors: VectorStore) -> None:
    from hasten.messages.embed import EMBED, Embedded

    async def embed(*_: Any) -> Embedded:
        return Embedded(vectors=[b""], dim=768, model="m")

    embedder = Service(bus, "embedder", "Pretends.")
    embedder.answer(EMBED, embed, limit=1)
    await embedder.start()
    made = Cache(Settings(dim=DIM), bus, vectors)
    with pytest.raises(StoreError, match=r"768 .* 8"):
        await made.start()
    await made.close()
    await embedder.drain()


@pytest.mark.parametrize("bad", [b"", b"abc", np.ones(768, "<f4").tobytes(), np.zeros(DIM, "<f4").tobytes()])
async def test_a_vector_of_another_width_is_a_miss_and_counted(cache: Cache, acme: Caller, bad: bytes) -> None:
    from hasten.telemetry import REGISTRY

    before = REGISTRY.get_sample_value("hasten_cache_wrong_vectors_total") or 0.0
    await acme.put("k")
    assert missed(await acme.near(vector=bad)) == "unavailable"
    assert REGISTRY.get_sample_value("hasten_cache_wrong_vectors_total") == before + 1
    assert isinstance(await acme.put("k2", vector=bad), Stored), "it can still be found by its key"
    assert isinstance(await acme.exact("k2"), CacheHit)


async def test_an_embedder_that_makes_one_vector_of_everything_serves_nothing_by_meaning(
    cache: Cache, acme: Caller
) -> None:
    await acme.put("k", "Say hello to the whole team")
    for other in ("What is 6 times 7?", "Name the tallest waterfall in Peru", "Reverse the word 'lamp' twice"):
        assert missed(await acme.near(other)) == "guard"
    for one in "abcdefghij":
        await acme.near(f"{one}foo {one}bar {one}baz {one}qux")
    assert missed(await acme.near("say hello to the whole team!")) == "unavailable"
    for number, one in enumerate("abcdefghij"):
        spread = vector(*np.random.default_rng(number).standard_normal(DIM))
        await acme.near(f"{one}one {one}two {one}tri {one}four", vector=spread)
    assert isinstance(await acme.near("say hello to the whole team!"), CacheHit)
