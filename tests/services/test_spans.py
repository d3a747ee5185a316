"""Spans of requests: beneath their callers, linked where an answer is shared, and without a word of the content."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from patience import until
from replica_rig import ASK, Gate, Replicas, events_of, loyal, peers, replicas
from scripted_peers import ANSWER, PASSAGE, Scripted

from hasten.bus import Bus
from hasten.messages.chat import Done
from hasten.messages.failure import Failed, Failure
from hasten.tracing import Tracing

__all__ = ["loyal", "peers", "replicas"]
pytestmark = pytest.mark.usefixtures("loyal")
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01"}


class Seen:
    """The spans that have ended, of every service on the buses that were given to it."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = Tracing(SimpleSpanProcessor(self._exporter), {})

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str, service: str = "orchestrator") -> list[ReadableSpan]:
        return [
            one
            for one in self.spans
            if one.name == name and one.resource.attributes["service.name"] == f"hasten-{service}"
        ]

    async def ended(self, name: str, count: int = 1, service: str = "orchestrator") -> list[ReadableSpan]:
        await until(lambda: len(self.named(name, service)) >= count)
        return self.named(name, service)


@pytest.fixture
def seen(bus: Bus) -> Iterator[Seen]:
    made = Seen()
    bus.tracing = made.tracing
    yield made
    made.tracing.close()


async def replica(replicas: Replicas, seen: Seen) -> Any:
    """A replica that makes spans; the bus of the peers makes them already."""
    made = await replicas.add()
    made.bus.tracing = seen.tracing
    return made


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


async def test_stages_are_beneath_the_request_and_services_beneath_stages(
    replicas: Replicas, peers: Scripted, seen: Seen
) -> None:
    peers.passages = [PASSAGE]
    await replicas.ask(await replica(replicas, seen), ASK | {"knowledge": ["sea"]}, headers=TRACEPARENT)
    (chat,) = await seen.ended("chat")
    await seen.ended("store")
    assert (f"{parent_of(chat):016x}", f"{chat.context.trace_id:032x}") == (CALLER, TRACE)
    stages = ("exact", "embed", "semantic", "retrieve", "route", "lease", "compress", "generate", "store")
    for stage in stages:
        (span,) = seen.named(stage)
        assert parent_of(span) == chat.context.span_id
    for name, stage in (("embed", "embed"), ("retrieve", "retrieve"), ("route", "route"), ("compress", "compress")):
        (span,) = await seen.ended(name, service="scripted")
        assert parent_of(span) == seen.named(stage)[0].context.span_id
    (generated,) = await seen.ended("generate", service="worker")
    assert parent_of(generated) == seen.named("generate")[0].context.span_id
    assert {span.context.trace_id for span in seen.spans} == {chat.context.trace_id}
    assert [event.name for event in chat.events] == [event.name for event in generated.events] == ["gen_ai.first_chunk"]


async def test_a_span_says_how_it_went_and_nothing_of_the_content(
    replicas: Replicas, peers: Scripted, seen: Seen
) -> None:
    peers.passages = [PASSAGE]
    body = ASK | {"knowledge": ["sea"], "user": "mrs-secret"}
    events = await replicas.ask(await replica(replicas, seen), body, request_id="r1")
    (chat,) = await seen.ended("chat")
    await seen.ended("store")
    assert isinstance(events[-1], Done)
    about = chat.attributes or {}
    assert (about["hasten.cache"], about["hasten.tenant"], about["hasten.request_id"]) == ("miss", "acme", "r1")
    assert about["gen_ai.usage.output_tokens"] == events[-1].usage.completion_tokens
    assert (seen.named("exact")[0].attributes or {})["hasten.outcome"] == "miss"
    said = "".join(span.to_json() for span in seen.spans)
    assert not [secret for secret in ("tide", ANSWER, "mrs-secret") if secret in said]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{CALLER}",
        f"ff-{TRACE}-{CALLER}-01",
        f"00-{'0' * 32}-{CALLER}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{CALLER}-01",
        f"00-{TRACE}-{CALLER}-01-more",
    ],
)
async def test_an_invalid_traceparent_is_ignored(replicas: Replicas, seen: Seen, given: str) -> None:
    events = await replicas.ask(await replica(replicas, seen), headers={"traceparent": given})
    (chat,) = await seen.ended("chat")
    assert isinstance(events[-1], Done)
    assert chat.parent is None
    assert f"{chat.context.trace_id:032x}" != TRACE


async def test_who_shares_an_answer_is_linked_to_the_request_that_began_it(
    replicas: Replicas, peers: Scripted, seen: Seen
) -> None:
    leader, other = await replica(replicas, seen), await replica(replicas, seen)
    gate = Gate(peers, 3)
    first = await replicas.stream(leader, request_id="first")
    await until(lambda: leader.unit._flights.all and max(one.chunks for one in leader.unit._flights.all) == 3)
    streams = [first, await replicas.stream(leader, request_id="joins")]
    streams.append(await replicas.stream(other, request_id="follows"))
    await until(lambda: sum(flight.readers for one in replicas.all for flight in one.unit._flights.all) == 4)
    gate.open()
    for stream in streams:
        await events_of(stream)
    chats = {(span.attributes or {})["hasten.request_id"]: span for span in await seen.ended("chat", 3)}
    assert [link.context for link in chats["joins"].links] == [chats["first"].context]
    assert not chats["first"].links
    (following,) = [span for span in await seen.ended("follow", 2) if span.links]
    assert [link.context for link in following.links] == [chats["first"].context]
    assert following.context.trace_id == chats["follows"].context.trace_id
    assert len({chat.context.trace_id for chat in chats.values()}) == 3


async def test_an_error_is_the_status_of_its_spans_by_its_code(replicas: Replicas, peers: Scripted, seen: Seen) -> None:
    async def breaks(seq: int, _: Any) -> None:
        raise Failed.of(Failure(code="upstream", detail="the secret engine broke"))

    peers.broken = {"w1": breaks, "w2": breaks}
    events = await replicas.ask(await replica(replicas, seen))
    (chat,) = await seen.ended("chat")
    assert isinstance(events[-1], Failure)
    assert (chat.status.status_code.name, chat.status.description) == ("ERROR", events[-1].code)
    tries = await seen.ended("generate", 2)
    assert [(span.status.status_code.name, span.status.description) for span in tries] == [("ERROR", "upstream")] * 2
    assert "secret" not in "".join(span.to_json() for span in seen.spans)


async def test_what_a_hit_made_needless_is_cancelled(replicas: Replicas, peers: Scripted, seen: Seen) -> None:
    from hasten.messages.cache import Answer, CacheHit

    peers.semantic = CacheHit(kind="semantic", entry_id="e1", answer=Answer(text=ANSWER), similarity=0.97)
    peers.waits, peers.delays = {"semantic": lambda: peers.began("route")}, {"route": 600}
    await replicas.ask(await replica(replicas, seen))
    (route,) = await seen.ended("route")
    assert ((route.attributes or {})["hasten.outcome"], route.status.status_code.name) == ("cancelled", "UNSET")
    assert (seen.named("semantic")[0].attributes or {})["hasten.outcome"] == "hit"


async def test_without_tracing_nothing_is_sent_along(replicas: Replicas, peers: Scripted) -> None:
    heard: list[dict[str, str]] = []

    async def notes(seq: int, call: Any) -> None:
        heard.append(call.headers)

    peers.broken = {"w1": notes}
    await replicas.ask(await replicas.add(), headers=TRACEPARENT)
    assert heard
    assert not any("traceparent" in headers for headers in heard)
