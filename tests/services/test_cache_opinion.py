"""Second opinions on a real cache over real NATS: what they may add, and everything that they may not."""

import asyncio
from typing import Any

import pytest
from cache_rig import QUESTION, Caller, Shared, missed, until, vector
from scripted_opinion import ScriptedModel, advised

from hasten.buckets import key_names
from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.cache.verdicts import BUCKET
from hasten.messages.cache import CacheHit
from hasten.vectors.store import VectorStore

REWORDED = "Within how many days may shoes be sent back?"
SAME = (QUESTION, REWORDED)
NEAR = vector(1.0, 0.7)
"""A cosine of 0.82 with HERE: above the floor, and not enough for these questions to be taken for the same."""
INLINE = {"opinion_mode": "inline"}


async def judged(cache: Cache, verdicts: int) -> None:
    async def done() -> bool:
        counts = cache._opinion.counts
        return counts["same"] + counts["different"] >= verdicts

    await until(done)


async def begun(model: ScriptedModel) -> None:
    async def done() -> bool:
        return bool(model.heard)

    await until(done)


async def told(bus: Bus) -> None:
    async def done() -> bool:
        return bool(await key_names(bus, BUCKET))

    await until(done)


async def ask(caller: Caller, text: str = REWORDED, **fields: Any) -> Any:
    return await caller.near(text, **{"vector": NEAR, **fields})


async def test_what_is_a_miss_now_hits_from_the_verdict_on(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with advised(bus, vectors, ScriptedModel(SAME)) as cache:
        stored = await acme.put("k")
        assert missed(await ask(acme, REWORDED)) == "threshold"
        await judged(cache, 1)
        for text in (REWORDED, REWORDED.lower().rstrip("?")):
            hit = await ask(acme, text)
            assert isinstance(hit, CacheHit)
            assert (hit.kind, hit.entry_id) == ("semantic", stored.entry_id)
        assert cache.report()["opinions"] == {"asked": 1, "same": 1, "served": 2}


async def test_a_pair_that_differs_is_judged_once_and_stays_a_miss(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    model = ScriptedModel(SAME)
    async with advised(bus, vectors, model) as cache:
        await acme.put("k")
        other = "Which leather are the shoes made of?"
        assert missed(await ask(acme, other)) == "threshold"
        await judged(cache, 1)
        assert missed(await ask(acme, other)) == "threshold"
        assert missed(await ask(acme, other.upper())) == "threshold"
        assert model.heard == [(other, QUESTION)], "the second direction is not asked after a no"
        assert cache.report()["opinions"] == {"asked": 1, "different": 1}


async def test_both_directions_have_to_agree(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    model = ScriptedModel(one_way=True)
    async with advised(bus, vectors, model, **INLINE):
        await acme.put("k")
        assert missed(await ask(acme, REWORDED)) == "threshold"
        assert model.heard == [(REWORDED, QUESTION), (QUESTION, REWORDED)]


async def test_many_who_ask_at_once_cost_one_judgement(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    model = ScriptedModel(SAME)
    model.free.clear()
    async with advised(bus, vectors, model) as cache:
        await acme.put("k")
        replies = await asyncio.gather(*(ask(acme, REWORDED) for _ in range(20)))
        assert {missed(reply) for reply in replies} == {"threshold"}
        model.free.set()
        await judged(cache, 1)
        assert len(model.heard) == 2


async def test_inline_the_first_who_asks_is_served(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with advised(bus, vectors, ScriptedModel(SAME), **INLINE) as cache:
        stored = await acme.put("k")
        assert (await ask(acme, REWORDED)).entry_id == stored.entry_id
        assert cache.report()["opinions"] == {"asked": 1, "same": 1, "served": 1}


async def test_inline_a_late_verdict_is_a_miss_and_counts_afterwards(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    model = ScriptedModel(SAME)
    model.free.clear()
    async with advised(bus, vectors, model, opinion_mode="inline", opinion_ms=1000.0) as cache:
        await acme.put("k")
        assert missed(await ask(acme, REWORDED)) == "threshold"
        assert cache.report()["opinions"]["late"] == 1
        model.free.set()
        await judged(cache, 1)
        assert isinstance(await ask(acme, REWORDED), CacheHit)


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("How do I subscribe to the Nordwind digest?", "How do I unsubscribe from the Nordwind digest?"),
        ("How do I subscribe to the Nordwind digest?", "How do I stop the Nordwind digest?"),
        ("Does plan Amber replace plan Cobalt?", "Does plan Cobalt replace plan Amber?"),
        ("How long is the return period for NO orders?", "How long is the return period for CH orders?"),
        ("Are interns allowed to approve invoices?", "Are interns not allowed to approve invoices?"),
        ("Are interns allowed to approve invoices?", "Aren't interns allowed to approve invoices?"),
        ("Are interns allowed to approve invoices?", "Are interns forbidden to approve invoices?"),
        ("Where is the parcel 48213 at present?", "Where is the parcel 48231 at present?"),
    ],
)
async def test_no_opinion_overrides_a_guard(
    bus: Bus, vectors: VectorStore, acme: Caller, stored: str, asked: str
) -> None:
    model = ScriptedModel()
    async with advised(bus, vectors, model, **INLINE):
        await acme.put("k", stored)
        for near in (vector(1.0), NEAR):
            assert missed(await ask(acme, asked, vector=near)) in ("guard", "threshold")
        assert model.heard == []


async def test_a_caller_who_wants_less_distance_gets_no_opinion(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    model = ScriptedModel()
    async with advised(bus, vectors, model, **INLINE):
        await acme.put("k")
        for distance in (0.0, 0.1):
            assert missed(await ask(acme, REWORDED, max_distance=distance)) == "threshold"
        assert missed(await ask(acme, REWORDED, max_distance=0.0)) == "threshold"
        assert missed(await ask(acme, REWORDED, vector=vector(0.5, 1.0))) == "threshold"
        assert model.heard == []
        assert isinstance(await ask(acme, REWORDED, max_distance=0.25), CacheHit)


async def test_where_a_stricter_threshold_holds_nobody_else_is_asked(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    model = ScriptedModel()
    async with advised(bus, vectors, model, thresholds={"tenant:acme": 0.99}, **INLINE):
        for caller in (acme, Caller(bus, "globex")):
            await caller.put("k")
        assert missed(await ask(acme)) == "threshold"
        assert model.heard == []
        assert isinstance(await ask(Caller(bus, "globex")), CacheHit)


async def test_a_rejected_pair_is_neither_judged_nor_served(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    model = ScriptedModel()
    async with advised(bus, vectors, model, **INLINE):
        stored = await acme.put("k")
        assert isinstance(await ask(acme, REWORDED), CacheHit)
        await acme.invalidate(entries=[stored.entry_id], reject=REWORDED)
        await acme.put("k")
        assert missed(await ask(acme, REWORDED)) == "rejected"
        other = "How soon must shoes be sent back?"
        heard = len(model.heard)
        await acme.invalidate(entries=[stored.entry_id], reject=other)
        await acme.put("k")
        assert missed(await ask(acme, other)) == "rejected"
        assert len(model.heard) == heard


async def test_a_changed_answer_is_not_served_and_the_verdict_outlives_it(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    model = ScriptedModel(SAME)
    async with advised(bus, vectors, model, **INLINE):
        await acme.put("k", tags=["prices:7"])
        assert isinstance(await ask(acme, REWORDED), CacheHit)
        await acme.invalidate(tags=["prices:7"])
        missed(await ask(acme, REWORDED))
        await acme.put("k", answer="14 days", tags=["prices:7"])
        assert (await ask(acme, REWORDED)).answer.text == "14 days"
        await acme.invalidate(everything=True)
        await acme.put("k2", REWORDED, "7 days")
        assert (await ask(acme, QUESTION)).answer.text == "7 days", "the verdict holds either way round"
        assert len(model.heard) == 2


async def test_a_change_during_the_judgement_is_heeded(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    model = ScriptedModel(SAME)
    model.free.clear()
    async with advised(bus, vectors, model, **INLINE) as cache:
        await acme.put("k", tags=["prices:7"])
        asking = asyncio.create_task(ask(acme, REWORDED))
        await begun(model)
        await acme.invalidate(tags=["prices:7"])
        model.free.set()
        assert missed(await asking) == "threshold"
        assert cache.report()["opinions"] == {"asked": 1, "same": 1}


async def test_another_tenant_gets_neither_the_answer_nor_the_verdict(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    model = ScriptedModel(SAME)
    other = Caller(bus, "globex")
    async with advised(bus, vectors, model) as cache:
        await acme.put("k")
        await ask(acme, REWORDED)
        await judged(cache, 1)
        assert missed(await ask(other, REWORDED)) == "absent"
        await other.put("k", answer="90 days")
        assert missed(await ask(other, REWORDED)) == "threshold"
        await judged(cache, 2)
        assert (await ask(other, REWORDED)).answer.text == "90 days"
        await acme.put("p", partition="formal", answer="Thirty days.")
        assert missed(await ask(acme, REWORDED, partition="formal")) == "threshold", "another prompt, another verdict"


async def test_a_verdict_is_known_to_other_replicas_and_after_a_restart(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    shared: Any = Shared(vectors)
    first, second = ScriptedModel(SAME), ScriptedModel(SAME)
    async with advised(bus, shared, first, **INLINE):
        await acme.put("k")
        assert isinstance(await ask(acme, REWORDED), CacheHit)
        await told(bus)
    async with advised(bus, shared, second, **INLINE):
        assert isinstance(await ask(acme, REWORDED), CacheHit)
        assert second.heard == []
    stricter = ScriptedModel([QUESTION])
    async with advised(bus, vectors, stricter, opinion_threshold=0.999, **INLINE):
        assert missed(await ask(acme, REWORDED)) == "threshold", "another threshold is another judge"
        assert stricter.heard != []


async def test_a_model_that_crashes_is_no_opinion(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    broken = "How soon must shoes be sent back?"
    async with advised(bus, vectors, ScriptedModel(SAME, crashes=[broken]), **INLINE) as cache:
        await acme.put("k")
        assert missed(await ask(acme, broken)) == "threshold"
        assert isinstance(await ask(acme, REWORDED), CacheHit)
        assert cache.report()["opinions"] == {"asked": 2, "failed": 1, "same": 1, "served": 1}


async def test_a_model_that_hangs_costs_its_verdicts_and_nothing_else(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    model = ScriptedModel()
    model.free.clear()
    async with advised(bus, vectors, model, opinion_waiting=1) as cache:
        await acme.put("k")
        assert missed(await ask(acme, REWORDED)) == "threshold"
        await begun(model)
        for days in ("weeks", "hours", "months"):
            assert missed(await ask(acme, f"After how many {days} are shoes taken back?")) == "threshold"
        assert cache.report()["opinions"] == {"asked": 2, "dropped": 2}
        assert isinstance(await acme.exact("k"), CacheHit)
    model.free.set()
