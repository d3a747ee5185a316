"""POST /v1/stream: our own events over SSE, gone on with at another gateway whoever died in between."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from native_rig import ASK, PATH, Reading, Seen, Sites, peers, replicas, site, sites, text_of
from patience import until
from replica_rig import Gate
from scripted_peers import PASSAGE

from hasten.bus import Bus
from hasten.keys import create
from hasten.messages.streamed import STREAM
from hasten.nats_server import NatsServer

__all__ = ["peers", "replicas", "sites"]
ANSWER = " ".join(f"word{at}" for at in range(12))
SEA = {**ASK, "knowledge": ["sea"]}


def told(events: list[Seen]) -> list[Any]:
    """What matters of events: everything but times, and neighbouring text as one."""
    found: list[Any] = []
    for one in events:
        if one.kind == "chunk" and found and isinstance(found[-1], str):
            found[-1] += one.data["text"]
        elif one.kind == "chunk":
            found.append(one.data["text"])
        elif one.kind == "note":
            found.append((one.kind, one.data["kind"]))
        else:
            found.append(one.kind)
    return found


async def test_every_event_has_an_id_and_is_what_the_bus_says(sites: Sites) -> None:
    sites.peers.answer, sites.peers.passages = ANSWER, [PASSAGE]
    reading = sites.one.ask(SEA, **{"x-request-id": "mine"})
    events = await reading.end()
    assert (reading.status, reading.request_id) == (200, "mine")
    assert [one.kind for one in events][:2] == ["accepted", "note"]
    assert (events[-1].kind, reading.text) == ("done", ANSWER)
    assert all(one.data["type"] == one.kind for one in events)
    assert events[0].data["request_id"] == "mine"
    ids = [one.id for one in events]
    assert len(set(ids)) == len(ids)
    assert all(id_.startswith("mine.") for id_ in ids)


async def test_cut_after_every_event_the_rest_is_exactly_what_is_missing(sites: Sites) -> None:
    """At the other gateway, from what is written down when it has ended."""
    sites.peers.answer, sites.peers.passages = ANSWER, [PASSAGE]
    whole = await sites.one.ask(SEA).end()
    for at in range(len(whole)):
        rest = sites.other.go_on(whole[at].id)
        assert told(whole[: at + 1] + await rest.end()) == told(whole)
        assert rest.status == (204 if at == len(whole) - 1 else 200)
    anew = Reading(sites.other.http, "GET", f"{PATH}/{whole[0].id.partition('.')[0]}")
    assert told(await anew.end()) == told(whole)


@pytest.mark.parametrize("dies", ["nobody", "gateway", "orchestrator", "both"])
async def test_a_reader_goes_on_at_another_gateway_whoever_died(sites: Sites, bus: Bus, dies: str) -> None:
    sites.peers.answer, sites.peers.passages = ANSWER, [PASSAGE]
    gate = Gate(sites.peers, 6)
    one, other = sites.orchestrators.all
    await sites.orchestrators.only(one)
    reading = sites.one.ask(SEA)
    await until(lambda: text_of(reading.events).endswith("word5"))
    async with asyncio.timeout(20):
        while (await bus.js.stream_info(STREAM)).state.messages < 11:  # what both know dies with them
            await asyncio.sleep(0.01)
    if dies in ("gateway", "both"):
        await sites.one.die()
    begun = await reading.cut()
    if dies in ("orchestrator", "both"):
        await one.die()
    else:
        await other.hear(True)
    rest = sites.other.go_on(begun[-1].id)
    await rest.has(0)
    gate.open()
    events = await rest.end()
    assert rest.status == 200
    assert told(begun + events) == [
        "accepted",
        ("note", "route"),
        ("note", "sources"),
        ("note", "compress"),
        ANSWER,
        ("note", "verification"),
        "done",
    ]


async def test_cut_at_every_event_of_a_running_answer_nothing_is_missing_and_nothing_comes_twice(sites: Sites) -> None:
    sites.peers.answer, sites.peers.passages = ANSWER, [PASSAGE]
    whole = told(await sites.one.ask({**SEA, "cache": {"mode": "off"}}).end())
    for count in range(1, 10):
        reading = sites.one.ask({**SEA, "cache": {"mode": "off"}})
        await reading.has(count)
        begun = await reading.cut()
        while begun[-1].kind != "done":
            rest = sites.other.go_on(begun[-1].id)
            await rest.has(2)
            begun += await rest.cut()
        assert told(begun) == whole


async def test_another_tenants_answer_is_not_there(sites: Sites, bus: Bus) -> None:
    key = await create(bus, "other")
    whole = await sites.one.ask(ASK, **{"x-request-id": "mine"}).end()
    strange = {"Authorization": f"Bearer {key}"}
    async with asyncio.timeout(20):
        while (await sites.other.http.get("/v1/models", headers=strange)).status_code == 401:
            await asyncio.sleep(0.01)
    async with site_of(sites) as http:
        for last in (whole[0].id, whole[-1].id, "mine.999.0", "never.0.0"):
            for method, path in (("GET", f"{PATH}/{last.partition('.')[0]}"), ("POST", PATH)):
                theirs = await http.request(method, path, headers={**strange, "Last-Event-ID": last})
                none = await http.request(
                    method,
                    path.replace("mine", "none"),
                    headers={**strange, "Last-Event-ID": last.replace("mine", "none")},
                )
                assert (theirs.status_code, theirs.content) == (404, none.content)
        assert (await http.delete(f"{PATH}/mine", headers=strange)).status_code == 404
        assert (await http.delete(f"{PATH}/a%20b", headers=strange)).status_code == 404


def site_of(sites: Sites) -> Any:
    return httpx.AsyncClient(base_url=sites.other.gateway.url, timeout=60, verify=False)


async def test_an_answer_for_one_user_is_there_for_that_user_only(sites: Sites) -> None:
    body = {**ASK, "user": "ann", "cache": {"scope": "user"}}
    whole = await sites.one.ask(body).end()
    last = whole[0].id
    for user in ({}, {"user": "bob"}):
        strange = sites.other.go_on(last, params=user)
        await strange.end()
        assert strange.status == 404
    rest = await sites.other.go_on(last, params={"user": "ann"}).end()
    assert told(rest) == told(whole[1:])
    posted = sites.other.ask(body, **{"Last-Event-ID": last})
    assert told(await posted.end()) == told(whole[1:])
    refused = sites.other.ask({**body, "user": "bob"}, **{"Last-Event-ID": last})
    await refused.end()
    assert refused.status == 404


HOSTILE = [
    "x", "mine", "mine.1", "mine.-1.0", "mine.1.0.end.end", "mine.1e3.0", "mine.0x1.0", "mine.٣.0", "mine.1.0.0",
    "*.1.0", ">.1.0", "a b.1.0", "mine.9999999999.0", "M.1.0", "../x.1.0", "mine.1.0." + "a" * 5000,
]  # fmt: skip


async def test_an_id_that_is_none_is_refused(sites: Sites) -> None:
    for last in HOSTILE:
        reading = Reading(sites.one.http, "POST", PATH, headers={"Last-Event-ID": last.encode()})
        await reading.end()
        assert (reading.status, json.loads(reading.body)["error"]["param"]) == (400, "Last-Event-ID"), last


async def test_a_place_that_an_answer_has_never_been_at_is_refused(sites: Sites) -> None:
    sites.peers.answer = ANSWER
    whole = await sites.one.ask(ASK, **{"x-request-id": "mine"}).end()
    assert whole[-1].kind == "done"
    for last in ("mine.999.0", "mine.1.77", "mine.13.0"):
        reading = sites.other.go_on(last)
        await reading.end()
        assert (reading.status, json.loads(reading.body)["error"]["param"]) == (400, "Last-Event-ID")
    gate = Gate(sites.peers, 3)
    running = sites.one.ask({**ASK, "cache": {"mode": "off"}}, **{"x-request-id": "other"})
    await running.has(4)
    ahead = sites.other.go_on("other.999.0")
    await ahead.end()
    assert ahead.status == 400
    gate.open()
    await running.cut()


async def test_who_comes_back_takes_the_answer_over(sites: Sites) -> None:
    """The first connection may be half open: its gateway still thinks that there is a reader."""
    sites.peers.answer = ANSWER
    gate = Gate(sites.peers, 4)
    first = sites.one.ask({**ASK, "cache": {"mode": "off"}})
    await until(lambda: first.text.endswith("word3"))
    second = sites.other.go_on(first.events[-1].id)
    await first.end()
    assert (first.events[-1].kind, first.events[-1].data["code"]) == ("failure", "cancelled")
    gate.open()
    assert text_of(first.events) + text_of(await second.end()) == ANSWER
    assert second.events[-1].kind == "done"


async def test_a_reader_that_stays_away_keeps_its_generation_for_the_grace_time_only(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    for replica in sites.orchestrators.all:
        monkeypatch.setattr(replica.unit._seats, "_grace_s", 0.05)
    Gate(sites.peers, 3)
    reading = sites.one.ask({**ASK, "cache": {"mode": "off"}})
    await until(lambda: len([one for one in reading.events if one.kind == "chunk"]) >= 1)
    assert any(replica.unit._flights.all for replica in sites.orchestrators.all)
    await reading.cut()
    await until(lambda: not any(replica.unit._flights.all for replica in sites.orchestrators.all))


async def test_who_wants_no_more_stops_the_generation(sites: Sites) -> None:
    Gate(sites.peers, 3)
    reading = sites.one.ask({**ASK, "cache": {"mode": "off"}}, **{"x-request-id": "mine"})
    await until(lambda: any(one.kind == "chunk" for one in reading.events))
    assert (await sites.other.http.delete(f"{PATH}/mine")).status_code == 204
    assert (await reading.end())[-1].data["code"] == "cancelled"
    assert (await sites.other.http.delete(f"{PATH}/never")).status_code == 404


async def test_a_refused_request_has_its_status_and_leaves_nothing_behind(sites: Sites, bus: Bus) -> None:
    for body, param in (({"messages": []}, "messages"), ({**ASK, "knowledge": ["A b"]}, "knowledge")):
        reading = sites.one.ask(body, **{"x-request-id": "mine"})
        await reading.end()
        assert (reading.status, json.loads(reading.body)["error"]["param"]) == (400, param)
        assert (await sites.one.http.get(f"{PATH}/mine")).status_code == 404


async def test_silence_is_filled_with_comments_that_are_no_events(nats_server: NatsServer, sites: Sites) -> None:
    gate = Gate(sites.peers, 2)
    async with site(nats_server, sites.key, ping_s=0.05) as quick, site(nats_server, sites.key, ping_s=0) as never:
        reading, other = quick.ask({**ASK, "cache": {"mode": "off"}}), never.ask({**ASK, "cache": {"mode": "off"}})
        await until(lambda: reading.comments >= 3)
        gate.open()
        await reading.end()
        await other.end()
        assert other.comments == 0
        assert all(one.data for one in reading.events)


async def test_what_is_written_down_is_forgotten(nats_server: NatsServer, sites: Sites, bus: Bus) -> None:
    whole = await sites.one.ask().end()
    assert (await bus.js.stream_info(STREAM)).config.max_age == 300
    await bus.js.purge_stream(STREAM)
    gone = sites.other.go_on(whole[0].id)
    await gone.end()
    assert gone.status == 404
    async with site(nats_server, sites.key, resume_for_s=0) as off:
        silent = await off.ask({**ASK, "cache": {"mode": "off"}}).end()
        assert silent[-1].kind == "done"
        again = off.go_on(silent[0].id)
        await again.end()
        assert again.status == 404


async def test_a_gateway_that_is_stopped_tells_its_readers_where_to_go_on(sites: Sites) -> None:
    sites.peers.answer = ANSWER
    gate = Gate(sites.peers, 4)
    reading = sites.one.ask({**ASK, "cache": {"mode": "off"}})
    await until(lambda: reading.text.endswith("word3"))
    closing = asyncio.create_task(sites.one.gateway.close())
    await reading.end()
    assert reading.events[-1].data["code"] == "draining"
    rest = sites.other.go_on(reading.events[-1].id)
    gate.open()
    assert reading.text + text_of(await rest.end()) == ANSWER
    await closing
