"""Messages reach the server in the order in which they were published, however many and large they are."""

import asyncio

import pytest
from nats.aio.msg import Msg
from nats.js.errors import KeyWrongLastSequenceError

from hasten.bus import Bus
from hasten.connection import UNWRITTEN
from hasten.nats_server import NatsServer


async def test_messages_of_every_size_come_in_the_order_of_publishing(nats_server: NatsServer, bus: Bus) -> None:
    heard, all_there = list[int](), asyncio.Event()
    sizes = [8, UNWRITTEN, 8, 900_000, *[8] * 500, *[20_000] * 50, 8]

    def receive(msg: Msg) -> None:
        heard.append(int(msg.data[:8]))
        if len(heard) == len(sizes):
            all_there.set()

    reader = await Bus.connect(nats_server.url)
    await reader.hear("order.>", receive)
    await reader.flush()
    for number, size in enumerate(sizes):
        await bus.client.publish(f"order.{number % 3}", f"{number:08}".encode().ljust(size))
    await bus.flush()
    await all_there.wait()
    assert heard == list(range(len(sizes)))
    await reader.close()


async def test_a_flush_stands_behind_what_was_published_in_the_same_turn(nats_server: NatsServer, bus: Bus) -> None:
    heard = list[bytes]()
    reader = await Bus.connect(nats_server.url)
    await reader.hear("flushed", lambda msg: heard.append(msg.data))
    await reader.flush()
    for turn in range(20):
        await bus.client.publish("flushed", str(turn).encode())
        await bus.flush()
        await reader.flush()
        assert len(heard) == turn + 1
    await reader.close()


async def test_who_has_left_a_subject_hears_no_more_of_it(nats_server: NatsServer, bus: Bus) -> None:
    heard = list[bytes]()
    reader = await Bus.connect(nats_server.url)
    subscription = await reader.hear("left", lambda msg: heard.append(msg.data))
    await reader.flush()
    await bus.client.publish("left", b"before")
    await bus.flush()
    await subscription.drain()  # type: ignore[no-untyped-call]
    await bus.client.publish("left", b"after")
    await bus.flush()
    await reader.flush()
    assert heard == [b"before"]
    await reader.close()


async def test_an_entry_of_a_bucket_is_changed_only_by_who_knows_its_last_revision(bus: Bus) -> None:
    bucket = await bus.js.create_key_value(bucket="swapped")
    first = await bucket.create("leader", b"one")
    with pytest.raises(KeyWrongLastSequenceError):
        await bucket.create("leader", b"two")
    with pytest.raises(KeyWrongLastSequenceError):
        await bucket.update("leader", b"two", last=first + 1)
    assert await bucket.update("leader", b"three", last=first) == first + 1
