"""Look-ups beside the collections, on a real NATS: asked together, bounded, and never in the way of the others."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg
from retriever_rig import Rig, running

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.failure import Failed, Failure
from hasten.messages.lookup import Finding, Found, Lookup
from hasten.messages.retrieve import RETRIEVE, Document, Retrieve, Retrieved
from hasten.retriever.lookup import LookupSettings
from hasten.retriever.lookups import Lookups
from hasten.retriever.settings import Settings
from hasten.settings import SettingsError, settings

Answer = Callable[[Msg], Awaitable[bytes | None]]
PATIENT = 60_000.0
"""The timeout of look-ups that are expected to answer, in ms."""


def found(*texts: str, **fields: Any) -> dict[str, Any]:
    """A reply with these passages."""
    passages = [{"id": str(at), "text": text, "tags": [f"prices:{at}"]} for at, text in enumerate(texts)]
    return {"type": "found", "passages": passages, **fields}


class Tool:
    """A process of the operator's that answers one subject with `reply`; `heard` are the messages."""

    def __init__(self, bus: Bus, reply: Any) -> None:
        self.bus, self.reply, self.heard = bus, reply, list[Msg]()

    async def on_asked(self, msg: Msg) -> None:
        self.heard.append(msg)
        if self.reply is not None:
            raw = self.reply if isinstance(self.reply, bytes) else msgspec.json.encode(self.reply)
            await self.bus.client.publish(msg.reply, raw)


async def hears(bus: Bus, name: str, reply: Any, subject: str = "hasten.v1.lookup.*.{name}") -> Tool:
    tool = Tool(bus, reply)
    await bus.subscribe(subject.format(name=name), tool.on_asked)
    await bus.flush()
    return tool


def asked_for(*names: str, timeout_ms: float = PATIENT, **fields: Any) -> dict[str, LookupSettings]:
    return {name: LookupSettings(timeout_ms=timeout_ms, **fields) for name in names}


async def ask(rig: Rig, *knowledge: str, **fields: Any) -> Retrieved:
    body = Retrieve(query="pump", knowledge=list(knowledge), **fields)
    reply = await rig.bus.request(RETRIEVE, body, tenant="acme", deadline_ms=now_ms() + 3_600_000)
    assert isinstance(reply, Retrieved), reply
    return reply


async def test_collections_and_look_ups_are_one_answer(bus: Bus, tmp_path: Path) -> None:
    tool = await hears(bus, "prices", found("a pump costs 80 euro", "a filter costs 40 euro"))
    async with running(bus, tmp_path, lookups=asked_for("prices")) as rig:
        await rig.put(Document(id="manual", text="how the pump is changed", metadata={"lang": "en"}))
        reply = await ask(rig, "help", "prices", filter={"lang": "en"}, limit=5)
    assert [one.id for one in reply.passages] == ["help/manual#0", "prices/0", "prices/1"]
    price = reply.passages[1]
    assert (price.collection, price.document, price.start, price.end) == ("prices", "0", 0, len(price.text))
    assert price.tags == ["collection:prices", "prices:0"]
    assert (reply.missing, reply.skipped) == ([], {})
    (msg,) = tool.heard
    assert msg.subject == "hasten.v1.lookup.acme.prices"
    assert msgspec.json.decode(msg.data) == {"query": "pump", "filter": {"lang": "en"}, "limit": 5}


async def test_all_are_asked_before_one_has_answered(bus: Bus, tmp_path: Path) -> None:
    """Each tool answers once all three have been asked: in turn, none would ever answer."""
    names, asked = ("one", "two", "three"), set[str]()
    together = asyncio.Event()

    def tool(name: str) -> Callable[[Msg], Awaitable[None]]:
        async def answer(msg: Msg) -> None:
            asked.add(name)
            if len(asked) == len(names):
                together.set()
            await together.wait()
            await bus.client.publish(msg.reply, msgspec.json.encode(found(name)))

        return answer

    for name in names:
        await bus.subscribe(f"hasten.v1.lookup.*.{name}", tool(name))
    async with running(bus, tmp_path, lookups=asked_for(*names)) as rig:
        reply = await ask(rig, *names)
    assert {one.text for one in reply.passages} == set(names)


HOSTILE: dict[str, tuple[str, Any]] = {
    "silent": ("timeout", None),
    "garbage": ("invalid", b"\xff\xfenot json"),
    "deep": ("invalid", b'{"type":"found","passages":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "acknowledgement": ("invalid", {"stream": "X", "seq": 1}),
    "wrong-type": ("invalid", {"type": "found", "passages": [{"id": 7, "text": "x"}]}),
    "empty-text": ("invalid", found(" ")),
    "surrogate": ("invalid", b'{"type":"found","passages":[{"id":"a","text":"\\ud800 x"}]}'),
    "span": ("invalid", {"type": "found", "passages": [{"id": "a", "text": "x", "start": 9, "end": 2}]}),
    "far": ("invalid", {"type": "found", "passages": [{"id": "a", "text": "x", "end": 2**70}]}),
    "ahead": ("invalid", found("x", read_seq=2**70)),
    "behind": ("invalid", found("x", read_seq=-1)),
    "nested": ("invalid", {"type": "found", "passages": [{"id": "a", "text": "x", "metadata": {"a": {"b": 1}}}]}),
    "long": ("too_large", found("x" * 20_000)),
    "many": ("too_large", found(*["x"] * 201)),
    "tags": ("too_large", found("x", tags=[f"t:{at}" for at in range(65)])),
    "about": ("too_large", {"type": "found", "passages": [{"id": "a", "text": "x", "title": "t" * 20_000}]}),
    "tenant": ("foreign", {"type": "found", "passages": [{"id": "a", "text": "x", "tenant": "globex"}]}),
    "other": ("foreign", {"type": "found", "passages": [{"id": "a", "text": "x", "collection": "secrets"}]}),
    "failing": ("failed", {"type": "failure", "code": "bad_request", "detail": "no"}),
}


async def test_whatever_a_look_up_does_the_others_are_returned(bus: Bus, tmp_path: Path) -> None:
    for name, (_, reply) in HOSTILE.items():
        await hears(bus, name, reply)
    await hears(bus, "good", found("a pump costs 80 euro"))
    await hears(bus, "nothing", found())
    lookups = {
        **asked_for(*HOSTILE, "good", "nothing", "absent"),
        "silent": LookupSettings(timeout_ms=50),
    }
    async with running(bus, tmp_path, lookups=lookups) as rig:
        await rig.put(Document(id="manual", text="how the pump is changed"))
        reply = await ask(rig, "help", "empty", *lookups, limit=100)
    assert [one.id for one in reply.passages] == ["help/manual#0", "good/0"]
    assert reply.skipped == {**{name: reason for name, (reason, _) in HOSTILE.items()}, "absent": "absent"}
    assert reply.missing == ["empty", "nothing"]


async def test_what_the_reply_depends_on_has_its_place_beside_the_passages(bus: Bus, tmp_path: Path) -> None:
    """Many long tags and more text than a message holds: some passages are left out, not the whole answer."""
    names = ("one", "two", "three", "four")
    texts = ["ü" * 16_000] * 15
    for name in names:
        await hears(bus, name, found(*texts, tags=[f"{name}:{at}".ljust(256, "ü") for at in range(64)]))
    async with running(bus, tmp_path, lookups=asked_for(*names)) as rig:
        reply = await ask(rig, *names, limit=50)
    assert reply.partial
    assert len(reply.passages) > 20
    assert len(reply.tags) == 64 * len(names)


async def test_a_look_up_takes_its_share_of_a_short_deadline_only(bus: Bus) -> None:
    """One that never answers, and may take a minute, is given up while there is time for the others to be told."""
    await hears(bus, "silent", None)
    lookups, call = Lookups(bus, asked_for("silent")), SimpleNamespace(tenant="acme", remaining_s=lambda: 0.1)
    assert await lookups.ask(["silent"], Lookup(query="pump"), call) == {"silent": "timeout"}  # type: ignore[arg-type]


async def test_an_id_counts_once_and_the_limit_is_kept(bus: Bus, tmp_path: Path) -> None:
    twice = {"type": "found", "passages": [{"id": "a", "text": text} for text in ("first", "second")]}
    await hears(bus, "twice", twice)
    await hears(bus, "many", found(*[f"pump {at}" for at in range(50)]))
    async with running(bus, tmp_path, lookups=asked_for("twice", "many")) as rig:
        reply = await ask(rig, "twice", "many", limit=3)
    assert [one.text for one in reply.passages] == ["first", "pump 0", "pump 1"]


@pytest.mark.parametrize(
    ("cacheable", "reply", "keeps"),
    [
        (False, found("80 euro", tags=["prices"]), False),
        (True, found("80 euro"), True),
        (True, found("80 euro", tags=["prices"]), True),
        (True, found(tags=["prices"]), True),
        (True, found(), False),
        (
            True,
            {"type": "found", "passages": [{"id": "a", "text": "80", "tags": ["p:1"]}, {"id": "b", "text": "9"}]},
            False,
        ),
        (True, b"nonsense", False),
    ],
)
async def test_answers_are_kept_only_of_what_change_events_speak_of(
    bus: Bus, tmp_path: Path, cacheable: bool, reply: Any, keeps: bool
) -> None:
    await hears(bus, "prices", reply)
    async with running(bus, tmp_path, lookups=asked_for("prices", cacheable=cacheable)) as rig:
        got = await ask(rig, "prices")
    assert got.volatile == ([] if keeps else ["prices"])


async def test_a_look_up_that_reads_a_copy_says_how_old_that_is(bus: Bus, tmp_path: Path) -> None:
    await hears(bus, "prices", found("80 euro", tags=["prices"], read_seq=1))
    async with running(bus, tmp_path, lookups=asked_for("prices", cacheable=True)) as rig:
        for at in range(3):
            await rig.put(Document(id=f"d{at}", text="pump"))
        assert (await ask(rig, "help")).read_seq >= 3
        both = await ask(rig, "help", "prices")
    assert (both.read_seq, both.tags) == (1, ["prices"])


async def test_a_subject_of_the_tools_own(bus: Bus, tmp_path: Path) -> None:
    tool = await hears(bus, "", found("80 euro"), "shop.find.*.prices")
    lookups = {"prices": LookupSettings(subject="shop.find.{tenant}.prices", timeout_ms=PATIENT)}
    async with running(bus, tmp_path, lookups=lookups) as rig:
        assert len((await ask(rig, "prices")).passages) == 1
    assert tool.heard[0].subject == "shop.find.acme.prices"


def _circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


async def given(tenant: str, asked: Lookup) -> Any:
    """A callable of the operator's; what it does is in the query."""
    if asked.query == "raise":
        raise RuntimeError("secret text")
    if asked.query == "refuse":
        raise Failed("unavailable", "the shop is closed")
    if asked.query == "nonsense":
        return {"passages": 7}
    if asked.query == "unchecked":
        return Found(passages=[Finding(id="a", text="x", start=0.5, end=1.5)])  # type: ignore[arg-type]
    if asked.query == "sequence":
        return Found(read_seq="x")  # type: ignore[arg-type]
    if asked.query == "cycle":
        return _circle()
    if asked.query == "hang":
        await asyncio.Event().wait()
    return Found() if asked.query == "nothing" else found(f"for {tenant}")


def not_async(tenant: str, asked: Lookup) -> None:
    """No look-up."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    made = ModuleType("lookups_of_a_test")
    made.given, made.not_async = given, not_async  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made.__name__


async def test_an_async_callable_is_asked_like_a_subject(bus: Bus, tmp_path: Path, module: str) -> None:
    lookups = {"called": LookupSettings(call=f"{module}:given", timeout_ms=PATIENT)}
    async with running(bus, tmp_path, lookups=lookups) as rig:
        assert [one.text for one in (await ask(rig, "called")).passages] == ["for acme"]
        wrong = dict.fromkeys(("nonsense", "unchecked", "sequence", "cycle"), "invalid")
        for query, reason in {"raise": "failed", "refuse": "absent", **wrong}.items():
            reply = await rig.bus.request(RETRIEVE, Retrieve(query=query, knowledge=["called"]), tenant="acme")
            assert reply.skipped == {"called": reason}
        nothing = await rig.bus.request(RETRIEVE, Retrieve(query="nothing", knowledge=["called"]), tenant="acme")
        assert (nothing.missing, nothing.skipped) == (["called"], {})


async def test_what_cannot_be_searched_fails_and_leaves_no_look_up_behind(
    bus: Bus, tmp_path: Path, module: str
) -> None:
    lookups = {"called": LookupSettings(call=f"{module}:given", timeout_ms=PATIENT)}
    async with running(bus, tmp_path, lookups=lookups) as rig:
        rig.vectors.broken = {"search"}
        body = Retrieve(query="hang", knowledge=["help", "called"])
        reply = await rig.bus.request(RETRIEVE, body, tenant="acme", deadline_ms=now_ms() + 3_600_000)
        assert isinstance(reply, Failure)
        assert reply.code == "unavailable"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"subject": "shop.find"}, "tenant"),
        ({"subject": "shop.find.{tenant}.>"}, "tokens of a subject"),
        ({"subject": "hasten.v1.retrieve.{tenant}"}, "does not begin with hasten"),
        ({"subject": "_INBOX.{tenant}"}, "does not begin with _INBOX"),
        ({"subject": "shop.{tenant}", "call": "a:b"}, "one of them"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"call": "no.such.module:f"}, "cannot be imported"),
        ({"call": "no-such-entry-point"}, "entry point"),
        ({"call": "lookups_of_a_test:not_async"}, "no async function"),
    ],
)
def test_a_look_up_that_cannot_be_asked_is_one_sentence(
    bus: Bus, module: str, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        Lookups(bus, {"prices": LookupSettings(**fields)})
    with pytest.raises(SettingsError, match="name of a look-up"):
        Lookups(bus, {"Prices!": LookupSettings()})


def test_the_configuration_names_them() -> None:
    config = {"retriever": {"lookups": {"prices": {"subject": "shop.find.{tenant}", "timeout_ms": 200}}}}
    made = settings(Settings, "retriever", config, environ={})
    assert made.lookups["prices"] == LookupSettings(subject="shop.find.{tenant}", timeout_ms=200)
    config["retriever"]["lookups"]["prices"]["tiemout_ms"] = 1
    with pytest.raises(SettingsError, match="tiemout_ms"):
        settings(Settings, "retriever", config, environ={})


async def test_many_tenants_at_once_get_their_own(bus: Bus, tmp_path: Path, module: str) -> None:
    lookups = {"called": LookupSettings(call=f"{module}:given", timeout_ms=PATIENT)}
    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(running(bus, tmp_path, lookups=lookups))

        async def one(tenant: str) -> None:
            body = Retrieve(query="x", knowledge=["called"])
            reply = await rig.bus.request(RETRIEVE, body, tenant=tenant, deadline_ms=now_ms() + 3_600_000)
            assert [passage.text for passage in reply.passages] == [f"for {tenant}"]

        await asyncio.gather(*(one(f"tenant{number}") for number in range(20)))
