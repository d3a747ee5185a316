"""The line before an engine never loses or doubles a slot, whatever is cancelled when."""

import asyncio
import random

from hasten.worker.line import Line


async def _hold(line: Line, seen: list[str], name: str, release: asyncio.Event, priority: int = 0) -> None:
    async with line.place("acme", 10, 1.0, priority):
        seen.append(name)
        await release.wait()


async def test_priority_first_then_arrival() -> None:
    line, seen, release = Line(1, 10), [], asyncio.Event()  # type: tuple[Line, list[str], asyncio.Event]
    tasks = []
    for name, priority in (("first", 0), ("low", -1), ("a", 0), ("b", 0), ("high", 1)):
        tasks.append(asyncio.create_task(_hold(line, seen, name, release, priority)))
        await asyncio.sleep(0)
    assert (line.active, line.queued, line.queued_tokens) == (1, 4, 40)
    assert line.wait_ms("acme", 0) >= 3.0
    release.set()
    await asyncio.gather(*tasks)
    assert seen == ["first", "high", "a", "b", "low"]
    assert (line.active, line.queued) == (0, 0)


async def test_one_that_is_cancelled_in_the_line_is_never_served() -> None:
    line, seen, release = Line(1, 10), [], asyncio.Event()  # type: tuple[Line, list[str], asyncio.Event]
    holder = asyncio.create_task(_hold(line, seen, "first", release))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(_hold(line, seen, name, release)) for name in "abc"]
    await asyncio.sleep(0)
    waiting[0].cancel()
    release.set()
    await asyncio.gather(holder, *waiting, return_exceptions=True)
    assert seen == ["first", "b", "c"]
    assert (line.active, line.queued) == (0, 0)


async def test_a_slot_that_says_nothing_ages_and_one_that_spoke_does_not() -> None:
    line = Line(2, 10)
    assert line.oldest_ms() == 0.0
    async with line.place("acme", 10, 1.0, 0) as hung:
        await asyncio.sleep(0.05)
        async with line.place("acme", 10, 1.0, 0) as young:
            assert line.oldest_ms() >= 40
            hung.spoken = True
            between = line.oldest_ms()
            await asyncio.sleep(0.02)
            assert line.oldest_ms() > between
            young.spoken = True
            assert line.oldest_ms() == 0.0
            young.spoken = False
        assert line.oldest_ms() == 0.0


async def test_the_age_counts_from_the_arrival_in_the_line() -> None:
    line, seen, release = Line(1, 10), [], asyncio.Event()  # type: tuple[Line, list[str], asyncio.Event]
    async with line.place("acme", 10, 1.0, 0) as first:
        first.spoken = True
        task = asyncio.create_task(_hold(line, seen, "second", release))
        await asyncio.sleep(0.05)
        assert line.oldest_ms() >= 40
    await asyncio.sleep(0)
    assert seen == ["second"]
    assert line.oldest_ms() >= 40
    release.set()
    await task


async def test_slots_survive_random_cancelling() -> None:
    line, chance = Line(3, 10), random.Random(7)
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        async with line.place(chance.choice("abc"), 1, chance.random(), chance.randrange(3)):
            running += 1
            most = max(most, running)
            try:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                running -= 1

    tasks = []
    for _ in range(2000):
        tasks.append(asyncio.create_task(work()))
        if chance.random() < 0.5:
            victim = chance.choice(tasks)
            victim.cancel()
            if chance.random() < 0.3:
                victim.cancel()
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 3
    assert (line.active, line.queued) == (0, 0)
    await asyncio.wait_for(work(), 5)


async def test_a_newcomer_waits_for_its_turn_and_not_for_all_who_came_before() -> None:
    line, seen, release = Line(1, 100), [], asyncio.Event()  # type: tuple[Line, list[str], asyncio.Event]
    tasks = []
    for at in range(50):
        tasks.append(asyncio.create_task(_hold(line, seen, f"a{at}", release)))
        await asyncio.sleep(0)
    assert line.wait_ms("acme", 0) >= 49.0
    assert line.wait_ms("other", 0) <= 2.0
    release.set()
    await asyncio.gather(*tasks)
    assert line.wait_ms("acme", 0) == 0.0


async def test_one_tenant_cannot_fill_the_line() -> None:
    line, seen, release = Line(1, 8, share=0.5), [], asyncio.Event()  # type: tuple[Line, list[str], asyncio.Event]
    tasks = []
    for at in range(5):
        assert not line.crowded_by("acme")
        tasks.append(asyncio.create_task(_hold(line, seen, f"a{at}", release)))
        await asyncio.sleep(0)
    assert line.crowded_by("acme")
    assert not line.crowded_by("other")
    assert line.share_ms("acme") > 0
    release.set()
    await asyncio.gather(*tasks)


async def test_late_is_who_takes_longer_in_a_slot_than_its_prompt_explains() -> None:
    line = Line(1, 4)
    assert line.late_ms(lambda tokens: 0.0) == 0.0
    async with line.place("acme", 1000, 0.0, 0) as place:
        await asyncio.sleep(0.05)
        assert line.late_ms(lambda tokens: 0.01 * tokens) >= 30
        assert line.late_ms(lambda tokens: 1000.0 * tokens) == 0.0, "a long prompt"
        place.spoken = True
        assert line.late_ms(lambda tokens: 0.0) == 0.0
