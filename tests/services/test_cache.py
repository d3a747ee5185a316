"""The cache over a real NATS server and a real store: what it finds, what it refuses, and what it never serves."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from hasten.bus import Bus
from hasten.cache.service import Cache, build
from hasten.cache.settings import Settings
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    INVALIDATE,
    INVALIDATED,
    Answer,
    CacheHit,
    CacheLookup,
    CacheMiss,
    CachePut,
    Invalidate,
    Invalidated,
    Invalidation,
    NotStored,
    Stored,
)
from hasten.messages.change import CHANGE, Change
from hasten.messages.failure import Failure
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.nats_server import NatsServer
from hasten.replicas import LEASE_S
from hasten.service import Service
from hasten.vectors.opening import store
from hasten.vectors.store import StoreError, VectorStore

DIM = 8
QUESTION = "How long is the return period for shoes?"


def vector(*first: float) -> bytes:
    """A unit vector with these first components."""
    made = np.zeros(DIM, dtype="<f4")
    made[: len(first)] = first
    return bytes((made / np.linalg.norm(made)).astype("<f4").tobytes())


HERE = vector(1.0)


class Caller:
    """Asks the cache in the name of one tenant."""

    def __init__(self, bus: Bus, tenant: str = "acme") -> None:
        self.bus, self.tenant = bus, tenant

    async def put(self, key: str, text: str = QUESTION, answer: Any = "30 days", **fields: Any) -> Any:
        whole = answer if isinstance(answer, Answer) else Answer(text=answer, model="m1")
        body = CachePut(key=key, text=text, answer=whole, **{"vector": HERE, "read_seq": 10**9, **fields})
        return await self.bus.request(CACHE_PUT, body, tenant=self.tenant)

    async def exact(self, key: str, **fields: Any) -> Any:
        return await self.bus.request(CACHE_LOOKUP, CacheLookup(key=key, **fields), tenant=self.tenant)

    async def near(self, text: str = QUESTION, key: str = "other", **fields: Any) -> Any:
        body = CacheLookup(key=key, text=text, **{"vector": HERE, **fields})
        return await self.bus.request(CACHE_LOOKUP, body, tenant=self.tenant)

    async def invalidate(self, **fields: Any) -> Any:
        return await self.bus.request(INVALIDATE, Invalidate(**fields), tenant=self.tenant)


@contextlib.asynccontextmanager
async def running(bus: Bus, vectors: VectorStore, **settings: Any) -> AsyncIterator[Cache]:
    """A replica on a store; it closes the store with itself."""
    made = Cache(Settings(dim=DIM, **settings), bus, vectors)
    try:
        await made.start()
        yield made
    finally:
        await made.drain()
        await made.close()


class Shared:
    """A store that several replicas use and none closes."""

    def __init__(self, inner: VectorStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def close(self) -> None:
        """Leaves it open."""


@pytest.fixture
def vectors(tmp_path: Path) -> VectorStore:
    return store(":memory:", tmp_path, "cache")


@pytest_asyncio.fixture
async def cache(bus: Bus, vectors: VectorStore) -> AsyncIterator[Cache]:
    async with running(bus, vectors) as made:
        yield made


@pytest.fixture
def acme(bus: Bus) -> Caller:
    return Caller(bus)


def missed(reply: Any) -> str:
    assert isinstance(reply, CacheMiss), reply
    return reply.reason


async def cold(cache: Cache) -> None:
    """Forgets what is in memory, so that the store is asked."""
    cache._shelf.hot.keep_only(lambda entry: False)


# What is found.


@pytest.mark.parametrize("warm", [True, False])
async def test_an_exact_hit_is_the_whole_answer(cache: Cache, acme: Caller, warm: bool) -> None:
    answer = Answer(text="30 days", model="m1", reasoning="law", notes=[{"kind": "sources", "data": {"passages": []}}])
    stored = await acme.put("k", answer=answer, tags=["prices:7"])
    if not warm:
        await cold(cache)
    hit = await acme.exact("k")
    assert isinstance(hit, CacheHit)
    assert (hit.kind, hit.entry_id, hit.answer) == ("exact", stored.entry_id, answer)
    assert set(hit.tags) == {"prices:7", "model:m1", f"entry:{stored.entry_id}"}


async def test_a_true_paraphrase_hits_by_meaning_and_names_its_entry(cache: Cache, acme: Caller) -> None:
    stored = await acme.put("k")
    hit = await acme.near("What is the return period for shoes?", vector=vector(1.0, 0.1))
    assert missed(hit) == "guard"
    hit = await acme.near("how long is the return period for shoes", vector=vector(1.0, 0.1))
    assert isinstance(hit, CacheHit)
    assert (hit.kind, hit.entry_id) == ("semantic", stored.entry_id)
    assert 0.99 < hit.similarity < 1.0


async def test_the_key_found_by_meaning_is_an_exact_hit(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    assert (await acme.near(key="k")).kind == "exact"


async def test_a_miss_says_why(cache: Cache, acme: Caller) -> None:
    stored = await acme.put("k")
    far = await acme.near(vector=vector(0.5, 1.0))
    assert missed(far) == "threshold"
    assert far.nearest == stored.entry_id
    assert far.similarity == pytest.approx(0.447, abs=0.01)
    refused = await acme.near("How long is the return period for boots?")
    assert (missed(refused), refused.guard, refused.nearest) == ("guard", "words", stored.entry_id)
    assert missed(await acme.exact("absent")) == "absent"
    assert missed(await acme.near("return shoes?")) == "short"
    assert missed(await acme.near("How long is my order underway?")) == "uncacheable"
    assert missed(await acme.near("Which shops are open today in Oslo?")) == "uncacheable"


async def test_a_refused_neighbour_does_not_hide_the_next(cache: Cache, acme: Caller) -> None:
    await acme.put("k1", "How long is the return period for boots?")
    good = await acme.put("k2", vector=vector(1.0, 0.05))
    assert (await acme.near()).entry_id == good.entry_id


async def test_zero_distance_means_the_identical_text(cache: Cache, acme: Caller) -> None:
    await acme.put("k", "how high is Mount Elgon?")
    assert missed(await acme.near("how high's Mount Elgon?", max_distance=0)) == "threshold"
    assert isinstance(await acme.near("how high's Mount Elgon?"), CacheHit)
    assert isinstance(await acme.near("how high is Mount Elgon?", max_distance=0), CacheHit)


async def test_a_caller_can_only_tighten_the_distance(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    assert missed(await acme.near(vector=vector(1.0, 0.4), max_distance=0.01)) == "threshold"
    assert missed(await acme.near(vector=vector(0.5, 1.0), max_distance=2.0)) == "threshold"


async def test_what_is_stored_without_a_vector_is_found_by_its_key_only(cache: Cache, acme: Caller) -> None:
    await acme.put("k", vector=None)
    assert missed(await acme.near()) == "absent"
    assert isinstance(await acme.exact("k"), CacheHit)


# Who may see it.


async def test_a_tenant_never_sees_another_tenants_entry(cache: Cache, bus: Bus) -> None:
    long_text = " ".join(f"clause {number} of the leave policy" for number in range(60))
    a, b = Caller(bus, "tenant-a"), Caller(bus, "tenant-b")
    await a.put("same-key", QUESTION, "the answer of a")
    assert missed(await b.exact("same-key")) == "absent"
    assert missed(await b.near(QUESTION)) == "absent"
    assert missed(await b.near(long_text[:1500])) == "absent"
    await b.put("same-key", QUESTION, "the answer of b")
    assert (await a.exact("same-key")).answer.text == "the answer of a"
    assert (await a.near(QUESTION)).answer.text == "the answer of a"
    assert (await b.near(QUESTION)).answer.text == "the answer of b"
    await b.invalidate(everything=True)
    assert isinstance(await a.exact("same-key"), CacheHit)


async def test_an_entry_whose_payload_names_another_tenant_is_not_served(
    cache: Cache, vectors: VectorStore, acme: Caller
) -> None:
    stored = await acme.put("k")
    await cold(cache)
    await vectors.set_payload([stored.entry_id], {"owner": "other"})
    assert missed(await acme.exact("k")) == "absent"
    assert missed(await acme.near()) == "absent"


async def test_partitions_do_not_mix(cache: Cache, acme: Caller) -> None:
    await acme.put("k1", answer="for everybody", partition="p")
    await acme.put("k2", answer="for u9 alone", partition="p-of-u9")
    assert (await acme.near(partition="p")).answer.text == "for everybody"
    assert (await acme.near(partition="p-of-u9")).answer.text == "for u9 alone"
    assert missed(await acme.near(partition="p-of-u1")) == "absent"


# What is not stored.


@pytest.mark.parametrize(
    ("answer", "fields", "reason"),
    [
        (Answer(text="cut", finish_reason="length"), {}, "truncated"),
        (Answer(text="cut", finish_reason="content_filter"), {}, "truncated"),
        (Answer(text="cut", finish_reason="error"), {}, "truncated"),
        (Answer(text="cut", finish_reason=""), {}, "truncated"),
        (Answer(text=""), {}, "empty"),
        (Answer(text=" \n"), {}, "empty"),
        (Answer(text="", tool_calls=[{"id": "1"}], finish_reason="tool_calls"), {}, "tool_calls"),
        (Answer(text="ok"), {"ttl_s": 0}, "ttl"),
        (Answer(text="ok"), {"ttl_s": -5}, "ttl"),
    ],
)
async def test_only_whole_answers_are_stored(
    cache: Cache, acme: Caller, answer: Answer, fields: dict[str, Any], reason: str
) -> None:
    reply = await acme.put("k", answer=answer, **fields)
    assert isinstance(reply, NotStored)
    assert reply.reason == reason
    assert missed(await acme.exact("k")) == "absent"


@pytest.mark.parametrize(
    "fields", [{"key": ""}, {"key": "k" * 129}, {"key": "k", "partition": "p" * 129}, {"key": "k", "tags": ["t"] * 513}]
)
async def test_what_has_no_proper_name_is_refused(cache: Cache, acme: Caller, fields: dict[str, Any]) -> None:
    reply = await acme.put(**fields)
    assert isinstance(reply, Failure)
    assert reply.code == "bad_request"


# How long it lives.


async def test_an_expired_neighbour_is_skipped_and_swept(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors) as cache:
        dying = await acme.put("dead", answer="dead", ttl_s=0.2)
        alive = await acme.put("alive", answer="alive", vector=vector(1.0, 0.1))
        await asyncio.sleep(0.25)
        hit = await acme.near()
        assert (hit.entry_id, hit.answer.text) == (alive.entry_id, "alive")
        assert missed(await acme.exact("dead")) == "expired"
        await cache._sweeper.tidy()
        assert await vectors.get([dying.entry_id]) == []
        assert await vectors.count() == 1
        assert missed(await acme.exact("dead")) == "absent"
        assert cache.report()["expired"] == 1


async def test_the_operators_longest_life_is_the_longest(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, max_ttl_s=0.2):
        assert isinstance(await acme.put("k", ttl_s=3600), Stored)
        await asyncio.sleep(0.25)
        assert missed(await acme.exact("k")) == "expired"


async def test_a_caller_may_want_it_younger_than_it_is(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    await asyncio.sleep(0.05)
    assert isinstance(await acme.exact("k", max_age_s=60), CacheHit)
    assert missed(await acme.exact("k", max_age_s=0.01)) == "expired"
    assert missed(await acme.exact("k", max_age_s=0)) == "expired"
    assert missed(await acme.near(max_age_s=0)) == "expired"


async def test_the_least_recently_used_make_room(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, max_entries=20, hot_entries=1) as cache:
        for number in range(25):
            await acme.put(f"k{number}")
            await asyncio.sleep(0.002)
        await cold(cache)
        assert isinstance(await acme.exact("k0"), CacheHit)
        await cache._sweeper.tidy()
        left = await vectors.count()
        assert 15 <= left <= 20
        assert isinstance(await acme.exact("k0"), CacheHit), "used a moment ago"
        assert isinstance(await acme.exact("k24"), CacheHit)
        assert missed(await acme.exact("k1")) == "absent"
        assert cache.report()["evictions"] == 25 - left
        assert cache.report()["entries"] == left


# When it is stale.


async def until(holds: Any, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not await holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("warm", [True, False])
async def test_a_change_of_a_row_outdates_the_answers_that_used_it(cache: Cache, acme: Caller, warm: bool) -> None:
    await acme.put("seven", tags=["prices:7"], partition="7")
    await acme.put("eight", tags=["prices:8"], partition="8")
    await acme.put("table", tags=["prices"], partition="t")
    if not warm:
        await cold(cache)
    sequence = await acme.bus.store(CHANGE, Change(table="prices", key=7), source="shop")

    async def applied() -> bool:
        return cache._freshness.applied >= sequence

    await until(applied)
    assert missed(await acme.exact("seven")) == "stale"
    assert missed(await acme.near(partition="7")) == "stale"
    assert missed(await acme.exact("table")) == "stale"
    assert isinstance(await acme.exact("eight"), CacheHit)
    await acme.bus.store(CHANGE, Change(table="prices", op="truncate"), source="shop")

    async def gone() -> bool:
        return isinstance(await acme.exact("eight"), CacheMiss)

    await until(gone)
    assert missed(await acme.exact("eight")) in ("stale", "absent")


async def test_a_new_version_of_a_document_outdates_its_answers_and_its_collections(cache: Cache, acme: Caller) -> None:
    tags = ["document:help/returns", "collection:help"]
    await acme.put("k", tags=tags)
    await Caller(acme.bus, "other").put("k", tags=tags)
    await acme.bus.store(DOCUMENT, Document(id="returns", text="14 days"), tenant="acme", collection="help")

    async def stale() -> bool:
        return isinstance(await acme.exact("k"), CacheMiss)

    await until(stale)
    assert isinstance(await Caller(acme.bus, "other").exact("k"), CacheHit)


async def test_an_answer_read_before_a_change_and_stored_after_it_is_never_served(cache: Cache, acme: Caller) -> None:
    read_seq = (await acme.exact("k")).read_seq
    sequence = await acme.bus.store(CHANGE, Change(table="docs", key="d7"), source="shop")

    async def applied() -> bool:
        return cache._freshness.applied >= sequence

    await until(applied)
    late = await acme.put("k", answer="old", tags=["docs:d7"], read_seq=read_seq)
    assert isinstance(late, NotStored)
    assert late.reason == "stale"
    assert missed(await acme.exact("k")) == "absent"
    assert isinstance(await acme.put("k", answer="new", tags=["docs:d7"], read_seq=sequence), Stored)
    assert (await acme.exact("k")).answer.text == "new"


async def test_a_stale_put_that_slips_in_before_the_change_is_known_is_not_served_either(
    cache: Cache, acme: Caller
) -> None:
    await acme.put("k", answer="old", tags=["docs:d7"], read_seq=0)
    assert isinstance(await acme.exact("k"), CacheHit)
    assert isinstance(await acme.invalidate(tags=["docs:d7"]), Invalidation)
    assert missed(await acme.exact("k")) == "absent"


async def test_nobody_can_store_for_the_future(cache: Cache, acme: Caller) -> None:
    await acme.put("k", tags=["docs:d7"], read_seq=10**15)
    await acme.invalidate(tags=["docs:d7"])
    assert missed(await acme.exact("k")) == "absent"


async def test_an_entry_of_another_stream_is_not_served(cache: Cache, vectors: VectorStore, acme: Caller) -> None:
    stored = await acme.put("k")
    await cold(cache)
    await vectors.set_payload([stored.entry_id], {"era": "1@another time"})
    assert missed(await acme.exact("k")) == "stale"
    assert missed(await acme.near()) == "absent"


async def test_cut_off_a_replica_serves_no_hit_after_its_lease(nats_server: NatsServer, tmp_path: Path) -> None:
    bus = await Bus.connect(nats_server.url)
    acme = Caller(bus)
    async with running(bus, store(":memory:", tmp_path, "cache")) as cache:
        await acme.put("k")
        assert isinstance(await acme.exact("k"), CacheHit)
        await nats_server.stop(kill=True)
        await asyncio.sleep(LEASE_S + 0.2)
        found = await cache._finder.find(CacheLookup(key="k"), "acme", cache._era)
        assert missed(found) == "lease"
        await nats_server.start()

        async def hits_again() -> bool:
            return isinstance(await acme.exact("k"), CacheHit)

        await until(hits_again, 20)
    await bus.close()


# Invalidation.


@pytest.mark.parametrize(
    "named",
    [
        {"tags": ["prices:7"]},
        {"tags": ["prices"]},
        {"documents": ["help/returns"]},
        {"models": ["m1"]},
        {"everything": True},
        {"tags": ["no such"], "documents": ["help/returns"]},
    ],
)
async def test_an_invalidation_removes_what_it_names_in_every_scope(
    cache: Cache, vectors: VectorStore, acme: Caller, named: dict[str, Any]
) -> None:
    tags = ["prices:7", "document:help/returns"]
    for user in ("", "u1", "u9"):
        await acme.put(f"k{user}", tags=tags, partition=f"p{user}", user=user)
    await acme.put("kept", answer=Answer(text="x", model="m2"), tags=["prices:8a"], partition="kept")
    other = Caller(acme.bus, "other")
    await other.put("k", tags=tags)
    gone = 4 if named in ({"tags": ["prices"]}, {"everything": True}) else 3
    dry = await acme.invalidate(**named, dry_run=True)
    assert (dry.entries, len(dry.listed)) == (gone, gone)
    assert {one.text for one in dry.listed} == {QUESTION}
    assert await vectors.count() == 5, "a dry run removes nothing"
    done = await acme.invalidate(**named)
    assert (done.entries, done.sequence) == (gone, cache._freshness.applied)
    assert await vectors.count() == 5 - gone
    for user in ("", "u1", "u9"):
        assert missed(await acme.exact(f"k{user}")) == "absent"
        assert missed(await acme.near(partition=f"p{user}")) == "absent"
    assert isinstance(await acme.exact("kept"), CacheHit) == (gone == 3)
    assert isinstance(await other.exact("k"), CacheHit)


async def test_an_invalidation_says_what_it_removed(cache: Cache, bus: Bus, acme: Caller) -> None:
    heard: list[tuple[Invalidated, str]] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, tokens: heard.append((event, tokens["tenant"])))
    await listener.start()
    await acme.put("k", tags=["prices:7"])
    done = await acme.invalidate(tags=["prices:7"], reason="wrong")
    await acme.invalidate(tags=["prices:7"])
    await asyncio.sleep(0.1)
    assert heard == [(Invalidated(tags=["prices:7"], entries=1, reason="wrong", sequence=done.sequence), "acme")]
    assert cache.report()["invalidations"] == 2
    await listener.drain()


async def test_a_bare_change_is_swept_and_told_for_each_tenant(cache: Cache, bus: Bus, vectors: VectorStore) -> None:
    heard: list[tuple[str, int]] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, tokens: heard.append((tokens["tenant"], event.entries)))
    await listener.start()
    for tenant in ("a", "b"):
        await Caller(bus, tenant).put("k1", tags=["prices:7"])
        await Caller(bus, tenant).put("k2", tags=["prices:8"])
    sequence = await bus.store(CHANGE, Change(table="prices", key=7), source="shop")
    await Caller(bus, "a").put("k3", tags=["prices:7"], read_seq=sequence)

    async def swept() -> bool:
        return len(heard) == 2

    await until(swept)
    assert sorted(heard) == [("a", 1), ("b", 1)]
    assert await vectors.count() == 3 if cache._freshness.applied >= sequence else True
    await listener.drain()


@pytest.mark.parametrize("named", [{}, {"reject": "x", "tags": ["t"]}, {"tags": [f"t{n}" for n in range(600)]}])
async def test_an_invalidation_of_nothing_is_refused(cache: Cache, acme: Caller, named: dict[str, Any]) -> None:
    reply = await acme.invalidate(**named)
    assert isinstance(reply, Failure)
    assert reply.code == "bad_request"


async def test_after_the_reply_no_replica_serves_what_was_invalidated(nats_server: NatsServer, tmp_path: Path) -> None:
    """Two replicas with connections of their own share a store; either may be asked, both must have heard."""
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    acme = Caller(await Bus.connect(nats_server.url))
    async with running(one, shared) as first, running(two, shared) as second:
        for number in range(15):
            tag = f"prices:{number}"
            await acme.put("k", answer=f"answer {number}", tags=[tag])
            for replica in (first, second):
                await replica._finder.find(CacheLookup(key="k"), "acme", replica._era)
            done = await acme.invalidate(tags=[tag])
            assert isinstance(done, Invalidation)
            assert done.entries == 1
            for replica in (first, second):
                found = await replica._finder.find(CacheLookup(key="k"), "acme", replica._era)
                assert missed(found) in ("absent", "stale")
        assert first.report()["invalidations"] + second.report()["invalidations"] == 15
    for bus in (one, two, acme.bus):
        await bus.close()


async def test_a_rejected_pair_never_hits_again_on_any_replica_after_a_restart(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    acme = Caller(one)
    asked = "how long is the return period for shoes"
    async with running(one, shared) as first, running(two, shared) as second:
        stored = await acme.put("k")
        assert (await acme.near(asked)).entry_id == stored.entry_id
        done = await acme.invalidate(entries=[stored.entry_id], reject=asked)
        assert done.entries == 1
        assert missed(await acme.exact("k")) == "absent"
        await acme.put("k", read_seq=done.sequence)
        for replica in (first, second):
            found = await replica._finder.find(CacheLookup(key="other", text=asked, vector=HERE), "acme", replica._era)
            assert (missed(found), found.nearest) == ("rejected", stored.entry_id)  # type: ignore[union-attr]
        assert isinstance(await acme.near(f"{QUESTION} "), CacheMiss), "the same question but for its spacing"
    async with running(one, shared):
        assert missed(await acme.near(asked)) == "rejected"
        await acme.put("asked", asked, vector=vector(0.0, 1.0), read_seq=10**9)
        assert missed(await acme.near(QUESTION, key="new", vector=vector(0.0, 1.0))) == "rejected", "nor the other way"
        assert (await acme.exact("k")).kind == "exact", "the entry itself is sound"
    for bus in (one, two):
        await bus.close()


# What may go wrong.


class Broken:
    """A store that fails at everything once it is open."""

    def __init__(self, inner: VectorStore) -> None:
        self._inner, self.broken = inner, False

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any, **__: Any) -> Any:
            raise StoreError("the vector store could not search (Timeout)")

        return fail if self.broken and name != "close" else getattr(self._inner, name)


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


async def test_meaning_can_be_switched_off(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, semantic=False):
        await acme.put("k")
        assert missed(await acme.near()) == "disabled"
        assert isinstance(await acme.exact("k"), CacheHit)


async def test_a_replica_takes_over_what_another_replaced(nats_server: NatsServer, tmp_path: Path) -> None:
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    async with running(one, shared) as first, running(two, shared, hot_s=0.2) as second:
        await Caller(one).put("k", answer="old")
        lookup = CacheLookup(key="k")
        await second._finder.find(lookup, "acme", second._era)
        await first._on_put(
            CachePut(key="k", answer=Answer(text="new"), read_seq=0), type("Call", (), {"tenant": "acme"})()
        )
        await asyncio.sleep(0.25)
        found = await second._finder.find(lookup, "acme", second._era)
        assert found.answer.text == "new"  # type: ignore[union-attr]
    for bus in (one, two):
        await bus.close()


async def test_the_embedded_store_keeps_entries_over_a_restart(bus: Bus, tmp_path: Path, acme: Caller) -> None:
    pytest.importorskip("qdrant_edge")
    settings = Settings(data=str(tmp_path), dim=DIM)
    for restarted in (False, True):
        cache = build(settings, bus)
        await cache.start()
        if not restarted:
            await acme.put("k", tags=["prices:7"])
        assert isinstance(await acme.exact("k"), CacheHit)
        assert isinstance(await acme.near("how long is the return period for shoes"), CacheHit)
        assert cache.report()["entries"] == 1
        await cache.drain()
        await cache.close()


async def test_the_report_counts_what_happened(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    await acme.put("k2", answer="")
    await acme.exact("k")
    await acme.exact("none")
    await acme.near("how long is the return period for shoes")
    report = cache.report()
    assert report["hits"] == {"exact": 1, "semantic": 1}
    assert report["misses"] == {"absent": 1}
    assert report["lookups"] == {"exact": 2, "semantic": 1}
    assert report["hit_rate"] == pytest.approx(2 / 3, abs=1e-3)
    assert report["puts"] == {"stored": 1, "empty": 1}
    assert (report["entries"], report["hot_entries"]) == (1, 1)
    assert report["hot_bytes"] > 0
