"""WebSocket /v1/stream, by the `websockets` library: several answers on one connection, gone on with at another."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import websockets
from native_rig import ASK, PATH, Site, Sites, peers, replicas, site, sites
from patience import until
from replica_rig import Gate
from websockets.asyncio.client import ClientConnection

from hasten.bus import Bus
from hasten.keys import create, revoke
from hasten.nats_server import NatsServer

__all__ = ["peers", "replicas", "sites"]
ANSWER = " ".join(f"word{at}" for at in range(12))
FRESH = {**ASK, "cache": {"mode": "off"}}


class Client:
    """A connection; `events` has what came, by request id, with the id of each event."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self.socket:
            data = json.loads(message)
            self.events.setdefault(data["request_id"], []).append((data.get("id", ""), data["event"]))

    async def say(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    def text(self, request_id: str) -> str:
        return "".join(event.get("text", "") for _, event in self.events.get(request_id, []))

    def ended(self, request_id: str) -> bool:
        found = self.events.get(request_id, [])
        return bool(found) and found[-1][1]["type"] in ("done", "failure")

    async def end(self, request_id: str) -> dict[str, Any]:
        """The last event of a request."""
        await until(lambda: self.ended(request_id))
        return self.events[request_id][-1][1]


async def connected(to: Site, key: str, **options: Any) -> Client:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    address = to.gateway.url.replace("http", "ws") + PATH
    return Client(await websockets.connect(address, additional_headers=headers, **options))


@pytest_asyncio.fixture
async def client(sites: Sites) -> AsyncIterator[Client]:
    made = await connected(sites.one, sites.key)
    yield made
    await made.socket.close()


async def test_several_answers_come_on_one_connection(sites: Sites, client: Client) -> None:
    sites.peers.answer = ANSWER
    for name in ("one", "two", "three"):
        await client.say(type="ask", request_id=name, request=FRESH)
    for name in ("one", "two", "three"):
        assert (await client.end(name))["type"] == "done"
        assert client.text(name) == ANSWER
        assert client.events[name][0][1] == {**client.events[name][0][1], "type": "accepted", "request_id": name}
        ids = [id_ for id_, _ in client.events[name]]
        assert len(set(ids)) == len(ids)


async def test_a_cancelled_request_stops_and_the_others_go_on(sites: Sites, client: Client) -> None:
    sites.peers.answer = ANSWER
    gate = Gate(sites.peers, 3)
    for name in ("one", "two"):
        await client.say(type="ask", request_id=name, request=FRESH)
    await until(lambda: all(client.text(name).endswith("word2") for name in ("one", "two")))
    await client.say(type="cancel", request_id="one")
    assert (await client.end("one"))["code"] == "cancelled"
    await until(lambda: sum(len(replica.unit._flights.all) for replica in sites.orchestrators.all) == 1)
    gate.open()
    assert (await client.end("two"))["type"] == "done"
    assert client.text("two") == ANSWER


@pytest.mark.parametrize("how", ["closed", "aborted", "gateway died"])
async def test_an_answer_goes_on_at_another_gateway_after_its_connection_was_lost(sites: Sites, how: str) -> None:
    sites.peers.answer = ANSWER
    gate = Gate(sites.peers, 4)
    first = await connected(sites.one, sites.key)
    await first.say(type="ask", request_id="mine", request=FRESH)
    await until(lambda: first.text("mine").endswith("word3"))
    if how == "closed":
        await first.socket.close()
    elif how == "aborted":
        first.socket.transport.abort()
    else:
        await sites.one.die()
    await asyncio.gather(first.task, return_exceptions=True)
    second = await connected(sites.other, sites.key)
    await second.say(type="resume", last_event_id=first.events["mine"][-1][0])
    gate.open()
    assert (await second.end("mine"))["type"] == "done"
    assert first.text("mine") + second.text("mine") == ANSWER
    await second.socket.close()


async def test_sse_and_a_websocket_go_on_with_each_others_answers(sites: Sites, client: Client) -> None:
    sites.peers.answer = ANSWER
    whole = await sites.other.ask(ASK, **{"x-request-id": "mine"}).end()
    await client.say(type="resume", last_event_id=whole[1].id)
    assert (await client.end("mine"))["type"] == "done"
    assert client.text("mine") == ANSWER
    await client.say(type="ask", request_id="other", request=ASK)
    await client.end("other")
    rest = sites.other.go_on(client.events["other"][0][0])
    await rest.end()
    assert rest.text == ANSWER


HOSTILE = [
    "", "[]", "{", "x" * 50, '{"type":"shout"}', '{"type":7}', '{"type":"ask","request":[]}', '{"type":"ask"}',
    '{"type":"ask","request_id":"a b","request":{}}', '{"type":"resume","last_event_id":"*.1.1"}',
    '{"type":"resume","request_id":"never"}', '{"type":"cancel","request_id":"never"}', "[" * 5000,
    '{"type":"ask","request":' + '{"a":' * 500 + "1" + "}" * 501,
]  # fmt: skip


async def test_a_message_that_is_none_is_answered_and_the_connection_lives(sites: Sites, client: Client) -> None:
    for message in HOSTILE:
        client.events.clear()
        await client.socket.send(message)
        await until(lambda: bool(client.events))
        ((_, failure),) = next(iter(client.events.values()))
        assert failure["type"] == "failure", message
        assert failure["code"] in ("bad_request", "not_found"), message
    await client.say(type="ask", request_id="good", request=ASK)
    assert (await client.end("good"))["type"] == "done"


async def test_a_connection_needs_a_key_which_a_browser_says_as_a_protocol(sites: Sites) -> None:
    for headers in ("", "hk-none"):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await connected(sites.one, headers)
        assert refused.value.response.status_code == 401
    browser = await connected(sites.one, "", subprotocols=["hasten.v1", f"hasten-key.{sites.key}"])
    assert browser.socket.subprotocol == "hasten.v1"
    await browser.say(type="ask", request_id="mine", request=ASK)
    assert (await browser.end("mine"))["type"] == "done"
    await browser.socket.close()
    with pytest.raises(websockets.InvalidStatus):
        await connected(sites.one, "", subprotocols=["hasten.v1", "hasten-key.hk-none"])


async def test_a_key_that_is_taken_back_closes_its_connections_at_their_next_word(sites: Sites, bus: Bus) -> None:
    key = await create(bus, "acme")
    async with asyncio.timeout(20):
        while True:
            try:
                made = await connected(sites.one, key)
                break
            except websockets.InvalidStatus:
                await asyncio.sleep(0.01)
    await revoke(bus, key)
    await until(lambda: sites.one.gateway._keys.caller_of(key) is None)
    await made.say(type="ask", request=ASK)
    await asyncio.gather(made.task, return_exceptions=True)
    assert made.socket.close_code == 4401


async def test_another_tenants_answer_is_not_there(sites: Sites, client: Client, bus: Bus) -> None:
    whole = await sites.other.ask(ASK, **{"x-request-id": "theirs"}).end()
    key = await create(bus, "other")
    await until(lambda: sites.one.gateway._keys.caller_of(key) is not None)
    strange = await connected(sites.one, key)
    await strange.say(type="resume", last_event_id=whole[0].id)
    await strange.say(type="resume", last_event_id=whole[0].id.replace("theirs", "never"))
    theirs, never = await strange.end("theirs"), await strange.end("never")
    assert theirs == never
    assert theirs["code"] == "not_found"
    await strange.say(type="cancel", request_id="theirs")
    await until(lambda: len(strange.events["theirs"]) == 2)
    assert strange.events["theirs"][-1][1] == theirs
    await strange.socket.close()


async def test_a_connection_has_its_limits(nats_server: NatsServer, sites: Sites) -> None:
    gate = Gate(sites.peers)
    async with site(nats_server, sites.key, socket_requests=2, max_body_bytes=5000) as small:
        made = await connected(small, sites.key)
        for name in ("one", "two", "three"):
            await made.say(type="ask", request_id=name, request=FRESH)
        assert (await made.end("three"))["code"] == "overloaded"
        await made.say(type="ask", request_id="one", request=FRESH)
        await until(lambda: any(event["type"] == "failure" for _, event in made.events.get("one", [])))
        gate.open()
        assert (await made.end("two"))["type"] == "done"
        await made.socket.close()
        large = await connected(small, sites.key)
        await large.socket.send("x" * 6000)
        await asyncio.gather(large.task, return_exceptions=True)
        assert large.socket.close_code == 1009
        odd = await connected(small, sites.key)
        await odd.socket.send(b"bytes")
        await asyncio.gather(odd.task, return_exceptions=True)
        assert odd.socket.close_code == 1003


async def test_a_connection_is_closed_when_it_asks_for_nothing_and_has_no_answer(
    nats_server: NatsServer, sites: Sites
) -> None:
    """A second connection that asks for nothing tells when the time has passed in which the first one could ask."""
    gate = Gate(sites.peers)
    async with site(nats_server, sites.key, socket_idle_s=0.3) as hasty:
        while not (busy := await asking(hasty, sites.key)).events:
            pass  # it was held up for so long that it was closed before it had asked
        idle = await connected(hasty, sites.key)
        await asyncio.gather(idle.task, return_exceptions=True)
        assert idle.socket.close_code == 4408
        assert not busy.task.done()
        gate.open()
        assert (await busy.end("one"))["type"] == "done"
        await asyncio.gather(busy.task, return_exceptions=True)
        assert busy.socket.close_code == 4408, "it asked for nothing more"


async def asking(to: Site, key: str) -> Client:
    """A connection whose request has been accepted, unless it is closed already."""
    made = await connected(to, key)
    with contextlib.suppress(websockets.ConnectionClosed):
        await made.say(type="ask", request_id="one", request=FRESH)
    await until(lambda: bool(made.events) or made.task.done())
    return made


async def test_a_gateway_that_is_stopped_says_where_to_go_on(sites: Sites) -> None:
    sites.peers.answer = ANSWER
    gate = Gate(sites.peers, 4)
    first = await connected(sites.one, sites.key)
    await first.say(type="ask", request_id="mine", request=FRESH)
    await until(lambda: first.text("mine").endswith("word3"))
    closing = asyncio.create_task(sites.one.gateway.close())
    await asyncio.gather(first.task, return_exceptions=True)
    assert first.socket.close_code == 1012
    assert first.events["mine"][-1][1]["code"] == "draining"
    second = await connected(sites.other, sites.key)
    await second.say(type="resume", last_event_id=first.events["mine"][-1][0])
    gate.open()
    assert (await second.end("mine"))["type"] == "done"
    assert first.text("mine") + second.text("mine") == ANSWER
    await second.socket.close()
    await closing
