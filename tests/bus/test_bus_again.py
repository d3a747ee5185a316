"""A request that may be answered twice is asked again in a silence: the replica that got it may hang."""

import asyncio

from patience import until
from small_talk import ECHO, Company, Said, Say

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.failure import Failure
from hasten.service import Call

AGAIN_S = [0.02]


async def test_a_replica_that_hangs_is_not_waited_for(bus: Bus, company: Company) -> None:
    asked: list[str] = []

    async def hangs_once(say: Say, call: Call) -> Said:
        asked.append(call.request_id)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return Said(text=say.text)

    await company.hear(ECHO, hangs_once)
    assert await bus.request(ECHO, Say(text="hello"), tenant="acme", request_id="r", again_s=AGAIN_S) == Said(
        text="hello"
    )
    assert set(asked) == {"r"}
    assert len(asked) >= 2


async def test_a_full_replica_says_nothing_for_one_that_works_on_it(bus: Bus, company: Company) -> None:
    gate = asyncio.Event()

    async def waits(say: Say, call: Call) -> Said:
        await gate.wait()
        return Said(text=say.text)

    service = await company.hear(ECHO, waits, limit=1)
    asking = asyncio.create_task(bus.request(ECHO, Say(text="hello"), tenant="acme", again_s=AGAIN_S))
    await until(lambda: service.endpoints[0].last_error == "overloaded")
    gate.set()
    assert await asking == Said(text="hello")


async def test_one_that_nobody_hears_is_refused_at_once_and_a_deadline_ends_the_asking(
    bus: Bus, company: Company
) -> None:
    nobody = await bus.request(ECHO, Say(), tenant="acme", again_s=[60.0])
    assert isinstance(nobody, Failure)
    assert nobody.code == "unavailable"
    asked: list[Say] = []

    async def hangs(say: Say, call: Call) -> Said:
        asked.append(say)
        await asyncio.Event().wait()
        return Said()

    await company.hear(ECHO, hangs)
    late = await bus.request(ECHO, Say(), tenant="acme", deadline_ms=now_ms() + 500, again_s=AGAIN_S)
    assert isinstance(late, Failure)
    assert late.code == "deadline"
    before = len(asked)
    await bus.flush()
    assert bus.outstanding == 0
    assert len(asked) - before <= 1, "nothing is sent any more"
