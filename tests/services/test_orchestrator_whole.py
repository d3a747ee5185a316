"""Only whole answers reach the store, seen through a real cache: what an upstream breaks off is never served again."""

import asyncio
from pathlib import Path

import pytest
from patience import until
from replica_rig import Gate, caching, events_of, first_chunk, half_scripted, loyal, running, text
from scripted_peers import ANSWER, Scripted

from hasten.bus import Bus
from hasten.messages.chat import Done
from hasten.messages.failure import Failure
from hasten.nats_server import NatsServer
from hasten.service import Call

__all__ = ["half_scripted", "loyal"]
pytestmark = pytest.mark.usefixtures("loyal")


@pytest.mark.parametrize("upstream", ["refuses", "breaks", "says nothing"])
async def test_nothing_is_stored_of_an_upstream_that_fails(
    nats_server: NatsServer, bus: Bus, half_scripted: Scripted, tmp_path: Path, upstream: str
) -> None:
    """An error at once, an error in the stream, and an end without a token; then the upstream is well."""
    peers = half_scripted

    async def fails(seq: int, call: Call) -> None:
        if seq == (0 if upstream == "refuses" else 2):
            await call.send(Failure(code="upstream", detail="HTTP 502"))
            raise RuntimeError

    if upstream == "says nothing":
        peers.answer = ""
    else:
        peers.broken = dict.fromkeys(("w1", "w2"), fails)
        peers.continues = False
    async with caching(bus, tmp_path) as cache, running(nats_server, 2) as replicas:
        one, other = replicas.all
        streams = [await replicas.stream(replica) for replica in (one, other)]
        for events in await asyncio.gather(*(events_of(stream) for stream in streams)):
            assert isinstance(events[-1], Done if upstream == "says nothing" else Failure)
            assert text(events) in ("", " ".join(ANSWER.split()[:2]))
        await until(lambda: not one.unit._flights.all and not other.unit._flights.all)
        peers.broken, peers.answer = {}, ANSWER
        for replica, source in ((other, "miss"), (one, "exact")):
            events = await replicas.ask(replica)
            assert (text(events), events[-1].cache) == (ANSWER, source)
            await until(lambda replica=replica: not replica.unit._flights.all)  # type: ignore[misc]
        assert cache.report()["puts"].get("stored") == 1


async def test_what_its_readers_have_left_in_mid_stream_is_not_served_to_the_next(
    nats_server: NatsServer, bus: Bus, half_scripted: Scripted, tmp_path: Path
) -> None:
    """With the readers at two replicas."""
    peers, gate = half_scripted, Gate(half_scripted, 1)
    async with caching(bus, tmp_path), running(nats_server, 2) as replicas:
        one, other = replicas.all
        streams = [await replicas.stream(replica) for replica in (one, other)]
        for stream in streams:
            await first_chunk(stream)
        for stream in streams:
            await stream.aclose()
        await until(lambda: peers.cancelled)
        gate.open()
        events = await replicas.ask(other)
        assert (text(events), events[-1].cache) == (ANSWER, "miss")
