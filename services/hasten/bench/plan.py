"""The order of the measurements: what is compared is measured in turns, so that a busy moment falls on both."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable

import msgspec

from hasten.bench.figures import Measured
from hasten.bench.filler import Filler
from hasten.bench.metrics import LOOSE, SEARCH, Metrics, at_most, between, total
from hasten.bench.probes import Probes, elapsed_ms, together
from hasten.messages.failure import Failed

THINGS = (
    "lamp", "chair", "table", "kettle", "bicycle", "jacket", "camera", "guitar", "carpet", "mirror", "printer",
    "toaster", "tent", "helmet", "blanket", "drill", "ladder", "pillow", "radio", "scooter",
)  # fmt: skip
STORED = "How can I change the delivery address of my {} order?"
ASKED = "How do I change the delivery address of my {} order?"
OTHERS = "Where can I find the delivery note of my {} order?"


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How often each thing is measured, and how many entries are in the cache meanwhile. `tagged` entries have one tag
    that is invalidated `tags` times."""

    entries: int = 10_000
    bare: int = 1000
    exact: int = 300
    semantic: int = 60
    lookups: int = 500
    puts: int = 300
    crowd: int = 2000
    invalidations: int = 50
    tagged: int = 1000
    tags: int = 3
    misses: int = 20
    routes: int = 300
    streams: int = 200


QUICK = Sizes(
    entries=1000,
    bare=200,
    exact=60,
    semantic=20,
    lookups=50,
    puts=50,
    crowd=200,
    invalidations=10,
    tagged=100,
    tags=1,
    misses=5,
    routes=60,
    streams=20,
)
NEW = 2**40
"""The numbers of entries that are put to be measured begin here."""
COMPACTED_S, LOOSE_ENTRIES = 600.0, 10_000
SWEPT_S = 2.0
"""By then the cache has looked again after what was invalidated, and takes no later change together with it."""
Watch = Callable[[], Awaitable[Metrics]]
"""Reads the metrics of the system; empty ones when it has none to read."""


async def measure(
    probes: Probes, sizes: Sizes, watch: Watch, say: Callable[[str], None], told: Callable[[int, int], None]
) -> Measured:
    """Runs everything; raises Failed when the system does not answer, or answers from where it should not."""
    seen = Measured(entries=sizes.entries, tagged=sizes.tagged)
    stored = await probes.vectors([STORED.format(thing) for thing in THINGS])
    filler = Filler(probes, len(stored[0]) // 4)
    say(f"storing {sizes.entries:,} entries")
    await filler.fill(sizes.entries, told)
    seen.loose = await _compacted(watch, say)
    for thing, vector in zip(THINGS, stored, strict=True):
        await probes.store(STORED.format(thing), vector)
    say("measuring exact hits beside bare NATS")
    await _exact(probes, sizes, seen)
    say("measuring hits by meaning beside the embedding")
    await _semantic(probes, sizes, seen)
    await _searches(filler, sizes, watch, seen)
    say("measuring the router")
    for at in range(sizes.routes):
        seen.route.append(await probes.route(ASKED.format(THINGS[at % len(THINGS)]), stored[at % len(THINGS)]))
    say("measuring misses")
    await _misses(probes, sizes, seen)
    say("measuring puts and invalidations")
    await _puts(filler, sizes, seen)
    await _invalidations(probes, filler, sizes, seen)
    return seen


async def _compacted(watch: Watch, say: Callable[[str], None]) -> int:
    """Waits until most of what was stored is in a graph, as it is most of the time; returns how much is not."""
    until = time.monotonic() + COMPACTED_S
    while (loose := (await watch()).value(LOOSE, collection="cache") or 0) > LOOSE_ENTRIES:
        if time.monotonic() > until:
            break
        say(f"waiting for the cache to compact {loose:,.0f} entries")
        await asyncio.sleep(5)
    return int(loose)


async def _exact(probes: Probes, sizes: Sizes, seen: Measured) -> None:
    question = STORED.format(THINGS[0])
    for at in range(-5, sizes.exact):
        answered = await probes.ask(question)
        if answered.cache != "exact" or answered.ttft_ms is None:
            raise Failed("internal", f"a stored question came back as {answered.cache}, not as an exact hit")
        trips = [await probes.bare() for _ in range(sizes.bare // sizes.exact)]
        if at >= 0:
            seen.exact_first.append(answered.ttft_ms)
            seen.exact_whole.append(answered.total_ms)
            seen.bare += trips
    seen.exact_many = await together(functools.partial(probes.ask, question) for _ in range(sizes.exact))


async def _semantic(probes: Probes, sizes: Sizes, seen: Measured) -> None:
    for at in range(-2, sizes.semantic):
        thing = THINGS[at % len(THINGS)]
        embedding = await elapsed_ms(probes.vectors([OTHERS.format(thing)]))
        answered = await probes.ask(ASKED.format(thing))
        if answered.cache != "semantic" or answered.ttft_ms is None:
            raise Failed("internal", f"a paraphrase came back as {answered.cache}, not as a hit by meaning")
        if at >= 0:
            seen.embed.append(embedding)
            seen.semantic.append(answered.ttft_ms)
            seen.lookup.append(answered.timings_ms.get("semantic", 0.0))


async def _misses(probes: Probes, sizes: Sizes, seen: Measured) -> None:
    """Warms the engine with one, then measures questions that nobody has asked."""
    for at in range(-1, sizes.misses):
        found = await probes.miss(f"Please tell me something new about the number {at * 7907 + 100_003}.")
        if found is not None and at >= 0:
            seen.engine.append(found[0])
            seen.overhead.append(found[1])


async def _searches(filler: Filler, sizes: Sizes, watch: Watch, seen: Measured) -> None:
    """One after the other for what a search takes, then many at once."""
    if not sizes.entries:
        return
    before = (await watch()).buckets(SEARCH, collection="cache")
    for look_up in filler.lookups(sizes.entries, sizes.lookups):
        await look_up()
    took = between(before, (await watch()).buckets(SEARCH, collection="cache"))
    if total(took):
        seen.search = (at_most(took, 0.5), at_most(took, 0.99), total(took))
    seen.lookup_many = await together(filler.lookups(sizes.entries, sizes.lookups + 10))


async def _puts(filler: Filler, sizes: Sizes, seen: Measured) -> None:
    for at in range(sizes.puts):
        seen.put.append(await elapsed_ms(filler.storing(NEW + at)()))
    start = NEW + sizes.puts
    seen.put_many = await together([filler.storing(start + at) for at in range(sizes.crowd)])


async def _invalidations(probes: Probes, filler: Filler, sizes: Sizes, seen: Measured) -> None:
    """Of one entry each, and of many at once; the entries of a tag are stored anew for each time."""
    for at in range(sizes.invalidations):
        await filler.storing(NEW + at, f"bench-one:{at}")()
    for at in range(sizes.invalidations):
        seen.invalidate.append(await elapsed_ms(probes.invalidate(f"bench-one:{at}", 1)))
    for _ in range(sizes.tags):
        await probes.refresh_read_seq()
        await together([filler.storing(NEW + at, "bench-many:1") for at in range(sizes.tagged)])
        seen.invalidate_many.append(await elapsed_ms(probes.invalidate("bench-many:1", 1)))
    await asyncio.sleep(SWEPT_S)
