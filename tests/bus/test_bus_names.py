"""Names that would change a subject never get into one, and replies go to inboxes only."""

import asyncio
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg
from patience import until
from small_talk import ECHO, TELL, TICK, Company, Say, Tell, Tick, echo, tell

from hasten.bus import Bus
from hasten.messages.chat import Ping
from hasten.messages.generate import GENERATE
from hasten.nats_server import NatsServer
from hasten.topics import BadName

BAD = ["*", ">", "a.b", "a b", "", ".", "a\r\nPUB evil 1\r\nx", "a\tb", "a\x00b", "UPPER", "ü", "x" * 65, "$SYS", "a>"]


@pytest.mark.parametrize("tenant", BAD)
async def test_a_bad_tenant_is_refused_before_anything_is_published(bus: Bus, tenant: str) -> None:
    """The shared connection and the streams on it do not notice."""
    published = bus.client.stats["out_msgs"]
    for attempt in (
        bus.request(ECHO, Say(), tenant=tenant),
        bus.stream(TELL, Tell(), tenant=tenant),
        bus.publish(TICK, Tick(), tenant=tenant),
        bus.store(TICK, Tick(), tenant=tenant),
    ):
        with pytest.raises(BadName, match="tenant must be"):
            await attempt
    assert bus.client.stats["out_msgs"] == published
    assert bus.outstanding == 0


@pytest.mark.parametrize("value", [None, 7, b"acme", ["acme"]])
def test_a_name_is_text(value: Any) -> None:
    with pytest.raises(BadName):
        TICK.subject(tenant=value)


def test_every_token_of_a_subject_is_checked() -> None:
    assert GENERATE.subject(slug="llama-3", worker="w_1") == "hasten.v1.generate.llama-3.w_1"
    with pytest.raises(BadName, match="slug"):
        GENERATE.subject(slug="meta/Llama", worker="w1")
    with pytest.raises(BadName, match="worker"):
        GENERATE.narrowed(slug="llama-3", worker="*")
    with pytest.raises(KeyError):
        GENERATE.subject(slug="llama-3")


@pytest.mark.parametrize("tenant", ["UPPER", "a%20b", "ü", "x" * 65, "a,b", "{acme}"])
async def test_a_bad_tenant_on_the_wire_is_refused_by_the_service(bus: Bus, company: Company, tenant: str) -> None:
    """A plain client can publish to any subject that the server takes."""
    await company.hear(ECHO, echo)
    await company.hear(TELL, tell)
    for topic in ("echo", "tell"):
        msg = await bus.client.request(f"hasten.v1.{topic}.{tenant}", b"{}", timeout=20)
        answer = msgspec.json.decode(msg.data)
        assert (answer["type"], answer["code"]) == ("failure", "bad_request")
        assert tenant not in answer["detail"]


async def test_a_broken_subject_of_one_leaves_the_streams_of_others_alone(bus: Bus, company: Company) -> None:
    await company.hear(TELL, tell)
    streams = [await bus.stream(TELL, Tell(count=50, pause_s=0.005), tenant="acme") for _ in range(30)]
    for tenant in BAD:
        with pytest.raises(BadName):
            await bus.request(ECHO, Say(), tenant=tenant)
    for stream in streams:
        *_, last = [event async for event in stream if not isinstance(event, Ping)]
        assert last.chunks == 50


DEPUTIES = [
    "$JS.API.STREAM.DELETE.HASTEN_CHANGES",
    "hasten.v1.invalidate.acme",
    "hasten.v1.echo.other",
    "_INBOX",
    "_INBOXES.x",
    "_inbox.x",
    "x._INBOX.y",
]


@pytest.mark.parametrize("reply", DEPUTIES)
async def test_a_service_publishes_nothing_outside_of_inboxes(bus: Bus, company: Company, reply: str) -> None:
    """A caller cannot make a service speak for it."""
    heard: list[str] = []
    handled: list[Any] = []

    async def listen(msg: Msg) -> None:
        heard.append(msg.subject)

    async def handle(say: Say, call: Any) -> Any:
        handled.append(say)
        return await echo(say, call)

    await company.hear(ECHO, handle)
    await company.hear(TELL, tell)
    subscription = await bus.subscribe(reply, listen)
    await bus.flush()
    for subject in ("hasten.v1.echo.acme", "hasten.v1.tell.acme", "$SRV.PING", "$SRV.INFO", "$SRV.STATS"):
        for body in (b"{}", b"{"):
            await bus.client.publish(subject, body, reply=reply)
    await bus.flush()
    assert (await bus.request(ECHO, Say(text="x"), tenant="acme")).text == "x"
    await asyncio.sleep(0.1)
    own = [subject for subject in heard if subject == reply]
    assert not own
    assert len(handled) == 1, "it is not worked for either"
    await subscription.unsubscribe()


@pytest.mark.parametrize("reply", ["_INBOX.>", "_INBOX.*.x", "_INBOX.a.*"])
async def test_a_reply_subject_with_a_wildcard_is_no_inbox(bus: Bus, company: Company, reply: str) -> None:
    handled: list[Any] = []

    async def handle(say: Say, call: Any) -> Any:
        handled.append(say)
        return await echo(say, call)

    await company.hear(ECHO, handle)
    await bus.client.publish("hasten.v1.echo.acme", b"{}", reply=reply)
    await bus.flush()
    assert (await bus.request(ECHO, Say(text="x"), tenant="acme")).text == "x"
    assert len(handled) == 1


async def test_a_request_without_a_reply_subject_is_dropped(bus: Bus, company: Company) -> None:
    service = await company.hear(ECHO, echo)
    await bus.client.publish("hasten.v1.echo.acme", b"{}")
    await bus.flush()
    await until(lambda: service.endpoints[0].num_errors == 1)
    assert (await bus.request(ECHO, Say(text="x"), tenant="acme")).text == "x"


async def test_somebody_who_listens_to_everything_changes_nothing(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    """Dashboards and `nats sub '>'` are no part of a conversation."""
    observer = await Bus.connect(nats_server.url)
    seen: list[str] = []

    async def look(msg: Msg) -> None:
        seen.append(msg.subject)

    await observer.subscribe(">", look)
    await observer.flush()
    await company.hear(ECHO, echo)
    await company.hear(TELL, tell)
    assert [(await bus.request(ECHO, Say(text=text), tenant="acme")).text for text in "abc"] == ["a", "b", "c"]
    events = [event async for event in await bus.stream(TELL, Tell(count=20), tenant="acme")]
    assert events[-1].chunks == 20
    await observer.flush()
    assert seen.count("hasten.v1.echo.acme") == 3
    await observer.close()
