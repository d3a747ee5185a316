"""The account that the cache gives of a lookup: verdicts, words, changes, other partitions, and what stays private."""

from typing import Any

import msgspec
from cache_rig import QUESTION, Broken, Caller, Shared, missed, running, until, vector

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.cache.settings import Settings
from hasten.messages.cache import Answer, CacheHit, CacheMiss, Explained
from hasten.messages.change import CHANGE, Change
from hasten.vectors.store import VectorStore

BOOTS = "How long is the return period for boots?"
MINE, OTHERS = {"model": "m", "system": "aa"}, {"model": "m", "system": "bb"}


def account(reply: Any) -> Explained:
    assert isinstance(reply, CacheHit | CacheMiss), reply
    assert reply.explained is not None
    return reply.explained


async def test_every_neighbour_has_its_verdict(cache: Cache, acme: Caller) -> None:
    notes: list[dict[str, Any]] = [{"kind": "sources", "data": {"passages": [{"id": "help/a#0", "version": 3}]}}]
    good = await acme.put("k1", answer=Answer(text="30 days", model="m1", notes=notes), tags=["prices:7"])
    await acme.put("k2", BOOTS, vector=vector(1.0, 0.1))
    await acme.put("k3", "Something quite far away from it?", vector=vector(0.5, 1.0))
    reply = await acme.near("how long is the return period for shoes", explain=True)
    assert (reply.kind, reply.entry_id) == ("semantic", good.entry_id)
    found = account(reply)
    assert (found.exact, found.by_key) == ("absent", None)
    assert [one.verdict for one in found.nearest] == ["hit", "guard", "threshold"]
    assert (found.nearest[1].guard, found.nearest[1].asked_only, found.nearest[1].stored_only) == (
        "words",
        ["shoes"],
        ["boots"],
    )
    first = found.nearest[0]
    assert first.text == QUESTION
    assert first.sources == ["help/a#0@3"]
    assert first.model == "m1"
    assert {"prices:7", "model:m1"} <= set(first.tags)
    assert found.threshold == Settings().threshold
    assert b"30 days" not in msgspec.json.encode(found), "an account holds no answer"


async def test_nothing_is_explained_unasked(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    assert (await acme.near()).explained is None
    assert (await acme.near(BOOTS)).explained is None
    assert (await acme.exact("k")).explained is None


async def test_a_lookup_that_nobody_is_answered_by_is_not_counted(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, alarm_window=4, alarm_memory=20) as cache:
        await acme.put("k")
        for _ in range(12):
            assert missed(await acme.near(BOOTS)) == "guard"
        before = cache.report()
        for _ in range(12):
            assert isinstance(await acme.near("how long is the return period for shoes", counted=False), CacheHit)
            assert missed(await acme.near(BOOTS, counted=False, explain=True)) == "guard"
        after = cache.report()
        counts = ("lookups", "hits", "misses", "hit_rate", "hit_rate_alarm")
        assert {name: after[name] for name in counts} == {name: before[name] for name in counts}


class Keeping(Shared):
    """A store that deletes nothing, so that what is stale can still be looked at."""

    async def delete(self, **_: Any) -> int:
        return 0


async def test_a_stale_entry_names_the_tag_and_the_change(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    keeping: Any = Keeping(vectors)
    async with running(bus, keeping):
        await acme.put("k", tags=["prices:7", "plans"], read_seq=0)
        sequence = await bus.store(CHANGE, Change(table="prices", key=7), source="shop")

        async def stale() -> bool:
            reply = await acme.exact("k")
            return isinstance(reply, CacheMiss) and reply.reason == "stale"

        await until(stale)
        found = account(await acme.exact("k", explain=True))
        assert found.exact == "stale"
        assert found.by_key is not None
        assert found.by_key.changed == {"prices:7": sequence}
        near = account(await acme.near(explain=True)).nearest[0]
        assert (near.verdict, near.changed) == ("stale", {"prices:7": sequence})


async def test_an_entry_that_was_swept_is_remembered_with_what_swept_it(cache: Cache, acme: Caller) -> None:
    await acme.put("k", tags=["prices:7"], read_seq=0)
    assert account(await acme.exact("new", explain=True)).by_key is None
    done = await acme.invalidate(tags=["prices:7"])
    found = account(await acme.exact("k", explain=True))
    assert (found.exact, done.entries) == ("absent", 1)
    assert found.by_key is not None
    assert (found.by_key.verdict, found.by_key.changed) == ("removed", {"prices:7": done.sequence})
    assert account(await Caller(acme.bus, "other").exact("k", explain=True)).by_key is None


async def test_a_rejected_pair_and_a_question_for_the_key_only_are_named(cache: Cache, acme: Caller) -> None:
    stored = await acme.put("k")
    asked = "how long is the return period for shoes"
    await acme.invalidate(entries=[stored.entry_id], reject=asked)
    await acme.put("k")
    assert account(await acme.near(asked, explain=True)).nearest[0].verdict == "rejected"
    short = await acme.near("return shoes?", explain=True)
    assert missed(short) == "short"
    assert account(short).nearest


async def test_the_part_that_differs_is_named(cache: Cache, acme: Caller) -> None:
    await acme.put("k1", partition="p1", parts=MINE)
    reply = await acme.near(partition="p2", parts=OTHERS, explain=True)
    assert missed(reply) == "absent"
    (other,) = account(reply).elsewhere
    assert (other.verdict, other.differs, other.text) == ("partition", ["system"], QUESTION)
    assert account(await acme.near(partition="p1", parts=MINE, explain=True)).elsewhere == []


async def test_another_tenant_and_another_user_are_in_no_account(cache: Cache, bus: Bus, acme: Caller) -> None:
    other = Caller(bus, "other")
    await other.put("k1", "The secret of the other tenant?")
    await acme.put("k2", "The secret of one user?", partition="p1", parts={"model": "m", "user": "u1"}, user="u1")
    await acme.put("k3", "What was stored without its parts?", partition="p3", user="u1")
    for parts in ({"model": "m"}, {"model": "m", "user": "u2"}):
        found = await acme.near("Tell me the secret of somebody?", partition="p2", parts=parts, explain=True)
        assert account(found).elsewhere == []
        assert account(found).nearest == []
    own = await acme.near(
        "Tell me a secret now, friend?", partition="p2", parts={"model": "m", "user": "u1"}, explain=True
    )
    assert [one.differs for one in account(own).elsewhere] == [["schema"]]


async def test_an_account_of_a_broken_store_is_a_miss_like_any_other(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    broken: Any = Broken(vectors)
    async with running(bus, broken):
        await acme.put("k")
        broken.broken = True
        assert missed(await acme.near(explain=True)) == "unavailable"
