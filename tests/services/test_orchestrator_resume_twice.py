"""A lost stream is asked for again before the replica that goes on with it has said anything: as an impatient client
does."""

from typing import Any

import msgspec
from nats.aio.msg import Msg
from patience import until
from replica_rig import ASK, Gate, Replicas, events_of, peers, replicas, text
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.deadline import now_ms
from hasten.messages.chat import Chunk, Done
from hasten.messages.resume import REJOIN, RESUME, Resume

__all__ = ["peers", "replicas"]
ANSWER = " ".join(f"word{at}" for at in range(30))


async def read(replicas: Replicas, count: int) -> Resume:
    """What a caller knows who has read so many chunks of the first replica."""
    async with await ChatStream(
        replicas.client, "acme", ASK, deadline_ms=now_ms() + 60_000, silence_s=20
    ).open() as stream:
        shown: list[str] = []
        async for event in stream:
            if isinstance(event, Chunk):
                shown.append(event.text)
            if len(shown) == count:
                break
        model, prompt = stream._model, stream._prompt
    return Resume(last=count - 1, request=ASK, shown=shown, model=model, prompt=prompt)


async def test_the_text_goes_on_once_however_often_it_is_asked_for(replicas: Replicas, peers: Scripted) -> None:
    peers.answer = ANSWER
    one, other = await replicas.add(), await replicas.add()
    Gate(peers, 5)
    await replicas.only(one)
    lost = await read(replicas, 5)
    await one.die()
    peers.broken = {}
    peers.delays["compress"] = 0.3
    asked: dict[str, Any] = {"tenant": "acme", "request_id": "again", "next_seq": 5, "resumable": True, "idle_s": 20}
    await replicas.client.stream(RESUME, lost, **asked)
    await until(lambda: len(other.unit._seats) == 1)
    events = await events_of(await replicas.client.stream(RESUME, lost, **asked))
    assert isinstance(events[-1], Done)
    assert "".join(lost.shown) + text(events) == ANSWER
    assert len(peers.generated) == 2, "both asked for one flight"


async def test_who_asks_another_replica_meanwhile_is_not_cancelled_there(
    replicas: Replicas, peers: Scripted, bus: Bus
) -> None:
    """The first replica that was asked still waits for the one that had the answer, which hangs."""
    peers.answer = ANSWER
    one, _ = await replicas.add(), await replicas.add()
    Gate(peers, 5)
    await replicas.only(one)
    lost = msgspec.structs.replace(await read(replicas, 5), replica="hung")
    await one.die()
    peers.broken = {}
    rejoins: list[Msg] = []

    async def hang(msg: Msg) -> None:
        rejoins.append(msg)

    await bus.subscribe(REJOIN.subject(replica="hung"), hang)
    await bus.flush()
    asked: dict[str, Any] = {"tenant": "acme", "request_id": "again", "next_seq": 5, "resumable": True, "idle_s": 20}
    await replicas.client.stream(RESUME, lost, **asked)
    await until(lambda: rejoins)
    events = await events_of(await replicas.client.stream(RESUME, lost, **asked))
    assert isinstance(events[-1], Done), events[-1]
    assert "".join(lost.shown) + text(events) == ANSWER
