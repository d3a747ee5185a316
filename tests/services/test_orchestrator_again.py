"""A replica of a stage that hangs, or dies with a request, costs that request a moment: another one is asked."""

import pytest
from nats.aio.msg import Msg
from replica_rig import events_of, peers, running
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.cache import CACHE_LOOKUP
from hasten.messages.chat import CHAT, Done
from hasten.messages.compress import COMPRESS
from hasten.messages.embed import EMBED
from hasten.messages.retrieve import RETRIEVE
from hasten.messages.route import ROUTE
from hasten.nats_server import NatsServer
from hasten.topics import Topic

__all__ = ["peers"]


@pytest.mark.parametrize("topic", [ROUTE, COMPRESS, CACHE_LOOKUP, EMBED, RETRIEVE], ids=lambda topic: topic.name)
async def test_a_hung_replica_is_passed_over(nats_server: NatsServer, bus: Bus, peers: Scripted, topic: Topic) -> None:
    swallowed: list[Msg] = []

    async def hang(msg: Msg) -> None:
        swallowed.append(msg)

    hung = await bus.subscribe(topic.pattern, hang, queue=topic.queue or "")
    await hung.unsubscribe(limit=1)
    async with running(nats_server, 1, again_s=0.05) as replicas:
        asked = 0
        while not swallowed:
            asked += 1
            body = {
                "messages": [{"role": "user", "content": f"What is it, for the {asked}th time?"}],
                "knowledge": ["sea"],
            }
            stream = await replicas.client.stream(CHAT, body, tenant="acme", idle_s=20)
            assert isinstance((await events_of(stream))[-1], Done)
