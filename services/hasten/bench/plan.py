"""The order of the measurements: what is compared is measured in turns, so that a busy moment falls on both."""

from collections.abc import Callable

import msgspec

from hasten.bench.figures import Measured
from hasten.bench.probes import Probes, elapsed_ms
from hasten.messages.failure import Failed

THINGS = (
    "lamp", "chair", "table", "kettle", "bicycle", "jacket", "camera", "guitar", "carpet", "mirror", "printer",
    "toaster", "tent", "helmet", "blanket", "drill", "ladder", "pillow", "radio", "scooter",
)  # fmt: skip
STORED = "How can I change the delivery address of my {} order?"
ASKED = "How do I change the delivery address of my {} order?"
OTHERS = "Where can I find the delivery note of my {} order?"


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How often each thing is measured, and how many entries are in the cache for the semantic hit."""

    entries: int = 10_000
    bare: int = 1000
    exact: int = 300
    semantic: int = 60
    misses: int = 20
    routes: int = 300


QUICK = Sizes(entries=1000, bare=200, exact=60, semantic=20, misses=5, routes=60)


async def measure(probes: Probes, sizes: Sizes, say: Callable[[str], None]) -> Measured:
    """Runs everything; raises Failed when the system does not answer, or answers from where it should not."""
    seen = Measured(entries=sizes.entries)
    stored = await probes.vectors([STORED.format(thing) for thing in THINGS])
    await probes.fill(sizes.entries, len(stored[0]) // 4, say)
    for thing, vector in zip(THINGS, stored, strict=True):
        await probes.store(STORED.format(thing), vector)
    say("measuring exact hits beside bare NATS")
    await _exact(probes, sizes, seen)
    say("measuring hits by meaning beside the embedding")
    await _semantic(probes, sizes, seen)
    say("measuring the router")
    for at in range(sizes.routes):
        seen.route.append(await probes.route(ASKED.format(THINGS[at % len(THINGS)]), stored[at % len(THINGS)]))
    say("measuring misses")
    await _misses(probes, sizes, seen)
    return seen


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
