"""The path of a request against scripted peers on a real NATS server: order, sharing, loss, leaving and staleness."""

import asyncio
from typing import Any

import msgspec
import pytest
from one_orchestrator import WITH_KNOWLEDGE, ask, client, orchestrator
from patience import until
from replica_rig import ASK, Gate, notes, peers, text
from scripted_peers import ANSWER, PASSAGE, Scripted

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.cache import Answer, CacheHit
from hasten.messages.change import CHANGE, TENANT_CHANGE, Change
from hasten.messages.chat import FINISHED, Accepted, Done, Finished, Note
from hasten.messages.failure import Failure
from hasten.orchestrator.service import Orchestrator
from hasten.service import Call

__all__ = ["client", "orchestrator", "peers"]


async def test_a_miss_then_an_exact_hit(client: Bus, orchestrator: Orchestrator, peers: Scripted) -> None:
    first = await ask(client)
    assert isinstance(first[0], Accepted)
    assert text(first) == ANSWER
    assert isinstance(first[-1], Done)
    assert (first[-1].cache, first[-1].model, first[-1].finish_reason) == ("miss", "m", "stop")
    assert {"exact", "embed", "semantic", "route", "compress", "first_token", "total"} <= set(first[-1].timings_ms)
    again = await ask(client)
    assert (again[-1].cache, text(again), len(peers.generated)) == ("exact", ANSWER, 1)
    details = {"cached_tokens": first[-1].usage.completion_tokens}
    marked = msgspec.structs.replace(first[-1].usage, cached_tokens=5, completion_tokens_details=details)
    assert again[-1].usage == marked, "the counts of the first time, every token marked as cached"


async def test_retrieval_and_routing_start_before_the_lookup_by_meaning_ends(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    stages = ("semantic", "retrieve", "route")
    peers.waits = dict.fromkeys(stages, lambda: peers.began(*stages))
    await ask(client, WITH_KNOWLEDGE)
    first_end = min(peers.log.index((stage, "ended")) for stage in stages)
    began = [peers.log.index((stage, "began")) for stage in stages]
    assert max(began) < first_end
    assert peers.log.index(("compress", "began")) > peers.log.index(("semantic", "ended"))


async def test_a_hit_by_meaning_wins_and_cancels_the_rest(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    answer = Answer(text=ANSWER, model="m", notes=[{"kind": "sources", "data": {"passages": []}}])
    peers.semantic = CacheHit(kind="semantic", entry_id="e7", answer=answer, similarity=0.97, age_s=3)
    peers.delays = {"retrieve": 30.0, "route": 30.0}
    events = await ask(client, WITH_KNOWLEDGE)
    assert (events[-1].cache, text(events), peers.generated) == ("semantic", ANSWER, [])
    about = {"hit": "semantic", "model": "m", "entry_id": "e7", "similarity": 0.97, "age_s": 3}
    assert notes(events)["cache"] == about
    assert "sources" in notes(events)


async def test_a_slow_exact_lookup_does_not_hold_the_embedding_and_still_wins(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.exact = CacheHit(kind="exact", entry_id="e1", answer=Answer(text=ANSWER))
    peers.delays, peers.waits = {"route": 30.0}, {"exact": lambda: peers.began("embed")}
    events = await ask(client)
    assert events[-1].cache == "exact"
    assert peers.log.index(("embed", "began")) < peers.log.index(("exact", "ended"))


async def test_ten_identical_questions_are_one_generation(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    gate = Gate(peers, 3)
    sequence = await client.store(TENANT_CHANGE, Change(tags=["*"]), tenant="acme")
    await until(lambda: orchestrator._freshness.applied >= sequence)
    asking = asyncio.gather(*(ask(client) for _ in range(10)))
    await until(lambda: len(orchestrator.service.requests.calls) == 10)
    gate.open()
    answers = await asking
    assert [text(events) for events in answers] == [ANSWER] * 10
    assert len(peers.generated) == 1
    assert sorted(events[-1].cache for events in answers) == ["miss"] + ["shared"] * 9


async def test_tenants_and_users_never_share_a_generation(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.chunk_delay_s = 0.02
    scoped = [{**ASK, "user": user, "cache": {"scope": "user"}} for user in ("u1", "u2")]
    asks = [ask(client, tenant="a"), ask(client, tenant="b"), *(ask(client, body) for body in scoped)]
    answers = await asyncio.gather(*asks)
    assert [events[-1].cache for events in answers] == ["miss"] * 4
    assert len(peers.generated) == 4


async def test_a_request_with_time_does_not_join_one_that_is_about_to_end(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    gate = Gate(peers, 3)
    hurried = asyncio.create_task(ask(client, {**ASK, "deadline_ms": 2000}))
    await until(lambda: peers.generated or hurried.done())
    patient_one = asyncio.create_task(ask(client))
    assert (await hurried)[-1].code == "deadline"
    gate.open()
    assert text(await patient_one) == ANSWER


async def test_prompt_and_answer_never_exceed_the_window_on_any_worker(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    async def broken(_: int, call: Call) -> None:
        await call.send(Failure(code="upstream"))
        raise RuntimeError

    peers.broken, peers.windows = {"w1": broken}, {"w2": 512}
    assert text(await ask(client, {**ASK, "max_tokens": 10**6})) == ANSWER
    assert [request.max_tokens for request in peers.compressed] == [2048, 256]
    assert [request.max_tokens for _, request in peers.generated] == [4096 - 5, 512 - 5]
    await ask(client, {**ASK, "max_tokens": 7, "seed": 1})
    assert peers.generated[-1][1].max_tokens == 7


async def test_another_model_gets_a_prompt_of_its_own(client: Bus, orchestrator: Orchestrator, peers: Scripted) -> None:
    async def broken(_: int, call: Call) -> None:
        await call.send(Failure(code="upstream"))
        raise RuntimeError

    peers.broken, peers.windows = {"w1": broken}, {"w2": 512}
    events = await ask(client)
    assert text(events) == ANSWER
    assert [request.context_window for request in peers.compressed] == [4096, 512]
    assert [event.data["worker"] for event in events if isinstance(event, Note) and event.kind == "route"] == [
        "w1",
        "w2",
    ]


@pytest.mark.parametrize(("finish_reason", "made"), [("length", 2), ("content_filter", 2), ("tool_calls", 1)])
async def test_the_cache_decides_by_how_an_answer_ended_whether_it_is_kept(
    client: Bus, orchestrator: Orchestrator, peers: Scripted, finish_reason: str, made: int
) -> None:
    peers.finish_reason = finish_reason
    assert (await ask(client))[-1].finish_reason == finish_reason
    await until(lambda: ("put", "ended") in peers.log)
    assert peers.puts[0].answer.finish_reason == finish_reason
    assert (await ask(client))[-1].finish_reason == finish_reason
    assert len(peers.generated) == made


async def test_an_answer_overtaken_by_a_change_is_marked_and_not_stored(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    applied = asyncio.Event()

    async def hold(*_: Any) -> None:
        await applied.wait()

    peers.broken["w1"] = hold
    body = {**ASK, "cache": {"tags": ["prices:7"]}}
    reading = asyncio.create_task(ask(client, body))
    await until(lambda: peers.generated)
    sequence = await client.store(CHANGE, Change(table="prices", key=7), source="shop")
    await until(lambda: orchestrator._freshness.applied >= sequence)
    applied.set()
    late = await ask(client, body)
    first = await reading
    assert notes(first)["cache"]["reason"] == "stale"
    assert (text(first), late[-1].cache) == (ANSWER, "miss")
    await until(lambda: peers.puts)
    assert [put.read_seq for put in peers.puts] == [sequence]


async def test_a_hit_read_before_a_change_is_not_served(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    sequence = await client.store(CHANGE, Change(table="prices", key=7), source="shop")
    await until(lambda: orchestrator._freshness.applied >= sequence)
    peers.exact = CacheHit(
        kind="exact", entry_id="e1", answer=Answer(text="old"), tags=["prices:7"], read_seq=sequence - 1
    )
    assert text(await ask(client)) == ANSWER
    peers.exact = CacheHit(kind="exact", entry_id="e1", answer=Answer(text="new"), tags=["prices:7"], read_seq=sequence)
    assert text(await ask(client, {**ASK, "seed": 1})) == "new"


async def test_documents_are_dependencies_at_the_sequence_they_were_read_at(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.passages, peers.read_seq = [PASSAGE], 0
    events = await ask(client, WITH_KNOWLEDGE)
    assert notes(events)["sources"]["passages"][0]["id"] == PASSAGE.id
    await until(lambda: peers.puts)
    assert set(peers.puts[0].tags) == {"collection:sea", "document:sea/tides"}
    assert peers.puts[0].read_seq == 0


async def test_no_responder_and_a_passed_deadline_are_told_apart(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.delays = {"route": 30.0}
    late = await ask(client, {**ASK, "deadline_ms": 200})
    assert late[-1].code == "deadline"
    expired = await ask(client, deadline_ms=now_ms() + 150)
    assert expired[-1].code == "deadline"
    await peers.service.drain()
    nobody = await ask(client, {**ASK, "seed": 3})
    assert (nobody[-1].code, nobody[-1].retry_after_ms) == ("unavailable", 1000)


async def test_every_request_is_announced_without_its_words(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    heard: list[tuple[Finished, bytes]] = []

    async def on_finished(msg: Any) -> None:
        heard.append((msgspec.json.decode(msg.data, type=Finished), msg.data))

    await client.subscribe(FINISHED.pattern, on_finished)
    await client.flush()
    await ask(client, request_id="q1")
    await ask(client, {**ASK, "n": 2})
    await until(lambda: len(heard) == 1)
    event, raw = heard[0]
    assert (event.outcome, event.cache, event.slug, event.worker, event.seq) == ("done", "miss", "m", "w1", 1)
    assert event.worker_ttft_ms > 0
    assert b"tide" not in raw


async def test_a_hot_answer_needs_no_lookup_until_something_changes(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    tags = ["prices:7", "entry:e1"]
    peers.exact = CacheHit(kind="exact", entry_id="e1", answer=Answer(text="old"), tags=tags, lives_s=60)
    assert [text(await ask(client)) for _ in range(3)] == ["old"] * 3
    assert peers.log.count(("exact", "began")) == 1
    assert text(await ask(client, tenant="other")) == "old"
    assert peers.log.count(("exact", "began")) == 2, "what one tenant has asked must not be quicker for another"
    peers.exact = None
    sequence = await client.store(TENANT_CHANGE, Change(tags=["entry:e1"]), tenant="acme")
    await until(lambda: orchestrator._freshness.applied >= sequence)
    assert text(await ask(client)) == ANSWER
    assert text(await ask(client, tenant="other")) == "old"


async def test_tags_of_the_caller_count_for_what_was_stored_without_them(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.exact = CacheHit(kind="exact", entry_id="e1", answer=Answer(text="old"), tags=["entry:e1"], lives_s=60)
    assert text(await ask(client)) == "old"
    sequence = await client.store(CHANGE, Change(table="prices", key=9), source="shop")
    await until(lambda: orchestrator._freshness.applied >= sequence)
    tagged = {**ASK, "cache": {"tags": ["prices:9"], "store": False}}
    assert text(await ask(client, tagged)) == ANSWER
    assert text(await ask(client)) == "old"


async def test_a_callers_age_limit_shortens_what_is_stored_and_broken_notes_are_left_out(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    await ask(client, {**ASK, "cache": {"max_age_s": 7}})
    await until(lambda: peers.puts)
    assert peers.puts[0].ttl_s == 7
    notes_: list[dict[str, Any]] = [{"a": 1}, {"kind": "sources", "data": {"passages": []}}]
    peers.exact = CacheHit(kind="exact", entry_id="e1", answer=Answer(text="x", notes=notes_), lives_s=60)
    assert notes(await ask(client, {**ASK, "seed": 1})).keys() == {"cache", "sources"}
