"""Many and large messages at once: nothing is dropped, nothing is left, and every request ends."""

import asyncio

from patience import until
from small_talk import ECHO, Company, Said, Say, echo

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.failure import Failure
from hasten.nats_server import NatsServer
from hasten.service import Call
from hasten.telemetry import REGISTRY


def _dropped() -> float:
    return sum(
        sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "hasten_bus_dropped_total"
    )


async def test_large_messages_behind_a_slow_handler_are_not_dropped(nats_server: NatsServer, company: Company) -> None:
    before, sizes = _dropped(), list[int]()

    async def slow(say: Say, _: Call) -> Said:
        await asyncio.sleep(0.01)
        sizes.append(len(say.text))
        return Said(text="")

    service = await company.hear(ECHO, slow, limit=1, waiting=40)
    bus = await Bus.connect(nats_server.url)
    asks = [bus.request(ECHO, Say(text="x" * 900 * 1024), tenant="acme") for _ in range(40)]
    assert all(isinstance(reply, Said) for reply in await asyncio.gather(*asks))
    assert sizes == [900 * 1024] * 40
    await until(lambda: service.pending == 0)
    assert _dropped() == before
    labels = {"service": service.name, "subject": ECHO.pattern}
    for unit in ("messages", "bytes"):
        assert REGISTRY.get_sample_value(f"hasten_bus_pending_{unit}", labels) == 0
    await bus.close()


async def test_a_long_run_of_requests_leaves_nothing_behind(bus: Bus, company: Company) -> None:
    service = await company.hear(ECHO, echo, limit=64)
    before = _dropped()

    async def one_after_the_other() -> None:
        for _ in range(40):
            assert isinstance(await bus.request(ECHO, Say(text="y" * 2048), tenant="acme"), Said)

    await asyncio.gather(*(one_after_the_other() for _ in range(50)))
    assert bus.outstanding == 0
    assert service.pending == 0
    assert _dropped() == before


async def test_each_of_two_thousand_requests_at_once_ends(bus: Bus, company: Company) -> None:
    await company.hear(ECHO, echo, limit=20, waiting=100)
    asks = [bus.request(ECHO, Say(wait_s=0.01), tenant="acme", deadline_ms=now_ms() + 20_000) for _ in range(2000)]
    replies = await asyncio.gather(*asks)
    codes = {reply.code for reply in replies if isinstance(reply, Failure)}
    assert codes <= {"overloaded", "deadline"}
    assert sum(isinstance(reply, Said) for reply in replies) >= 120
    assert bus.outstanding == 0
