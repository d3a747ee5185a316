"""Rules on what readers are shown when somebody is lost on the way, and between replicas."""

from typing import Any

import msgspec
from guard_rig import ANSWER, HIDDEN, MAIL, ask, guarded
from patience import until
from replica_rig import ASK, Gate, events_of, peers, running, text
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.deadline import now_ms
from hasten.messages.chat import Chunk
from hasten.messages.failure import Failed
from hasten.nats_server import NatsServer
from hasten.orchestrator.guard.rule import GuardRule
from hasten.orchestrator.settings import Settings
from hasten.service import Call

__all__ = ["peers"]


async def test_a_worker_that_is_lost_in_the_middle_of_a_match(bus: Bus, peers: Scripted) -> None:
    peers.answer = "The key is alpha beta gamma, keep it."

    async def breaks(seq: int, call: Call) -> None:
        if seq == 4:
            raise Failed("upstream", "HTTP 502")

    peers.broken = {"w1": breaks}
    rule = GuardRule(name="key", pattern="alpha beta gamma", replacement="[key]")
    async with guarded(bus, rule):
        events = await ask(bus)
    assert text(events) == "The key is [key], keep it."
    assert [one.continues for _, one in peers.generated] == ["", "The key is alpha"]
    assert not any("alpha" in event.text for event in events if isinstance(event, Chunk))


async def test_a_worker_that_is_lost_before_anything_could_be_shown(bus: Bus, peers: Scripted) -> None:
    peers.answer, peers.continues = "alpha beta gamma delta", False

    async def breaks(seq: int, call: Call) -> None:
        if seq == 2:
            raise Failed("upstream", "HTTP 502")

    peers.broken = {"w1": breaks}
    async with guarded(bus, GuardRule(name="key", pattern="alpha beta gamma", replacement="[key]")):
        events = await ask(bus)
    assert text(events) == "[key] delta"


async def test_followers_are_shown_the_same_and_go_on_when_their_leader_is_lost(
    nats_server: NatsServer, peers: Scripted
) -> None:
    """The scripted worker goes on by counting characters: the replacement has as many as what it stands for."""
    hidden = "[hidden address]"[: len("ann@example.org")]
    peers.answer, gate = ANSWER, Gate(peers, 7)
    rule = msgspec.structs.replace(MAIL, replacement=hidden)
    async with running(nats_server, 2, guard=[rule], silence_s=20) as replicas:
        one, other = replicas.all
        leading = await replicas.stream(one)
        await until(lambda: peers.generated)
        following = await replicas.stream(other)
        read: list[Any] = []
        async for event in following:
            read.append(event)
            if hidden in text(read) and not one.dead:
                await one.die()
                await replicas.forgotten(one)
                gate.open()
        await leading.aclose()
    assert text(read) == ANSWER.replace("ann@example.org", hidden)
    assert peers.generated[-1][1].continues.startswith(f"Write to Ann Lee at {hidden}")


async def test_replicas_with_other_rules_share_no_generation(nats_server: NatsServer, peers: Scripted) -> None:
    peers.answer, gate = ANSWER, Gate(peers, 1)
    async with running(nats_server, 1, guard=[MAIL]) as replicas:
        first = await replicas.stream(replicas.all[0])
        await until(lambda: len(peers.generated) == 1)
        replicas.settings = Settings(exact_wait_ms=20, again_s=0)
        second = await replicas.stream(await replicas.add())
        await until(lambda: len(peers.generated) == 2)
        gate.open()
        assert (text(await events_of(first)), text(await events_of(second))) == (HIDDEN, ANSWER)


async def test_a_resumed_stream_goes_on_from_what_was_shown(nats_server: NatsServer, peers: Scripted) -> None:
    """Its replica is gone; the reader brings what it has, the replacement included."""
    hidden = "[hidden address]"[: len("ann@example.org")]
    peers.answer, gate = ANSWER, Gate(peers, 7)
    async with running(nats_server, 2, guard=[msgspec.structs.replace(MAIL, replacement=hidden)]) as replicas:
        one, other = replicas.all
        await replicas.only(one)
        stream = ChatStream(replicas.client, "acme", ASK, deadline_ms=now_ms() + 60_000)
        read: list[Any] = []
        async with await stream.open():
            async for event in stream:
                read.append(event)
                if hidden in text(read) and not one.dead:
                    await other.hear(True)
                    await one.die()
                    gate.open()
    assert text(read) == ANSWER.replace("ann@example.org", hidden)
    assert stream.resumed
    assert [event.seq for event in read if isinstance(event, Chunk)] == list(range(read[-1].chunks))
