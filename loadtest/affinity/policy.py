"""The ways to choose a worker that are compared: hasten's own, and those that others use."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hasten.router.affinity import Prefix, anchor
from hasten.router.settings import Settings
from hasten.router.workers import Balance, Load, Usual, Work, best, draw

BOUND = 1.25
"""No worker has more than so many times the mean number of requests, as in consistent hashing with bounded loads
(Mirrokni, Thorup, Zadimoghaddam 2018)."""


P95_MS = 2000.0
"""What the router would have measured, on the low side: how soon it may think that a worker hangs."""


class Facts(NamedTuple):
    """What a choice may go by: the number of the request, its prompt, the workers' names in order, what is known of
    those that have said something, and how many tokens of the prompt they have."""

    number: int
    tokens: int
    prefix: Prefix
    names: Sequence[str]
    loads: Sequence[Load]
    cached: Mapping[str, int]


Policy = Callable[[Facts], str]


def at_random(facts: Facts) -> str:
    """Any worker."""
    return facts.names[random.Random(facts.number).randrange(len(facts.names))]


def round_robin(facts: Facts) -> str:
    """The next in turn."""
    return facts.names[facts.number % len(facts.names)]


def _order(facts: Facts) -> list[str]:
    key = anchor(facts.prefix)
    return sorted(facts.names, key=lambda name: -draw(key, name))


def hashing(facts: Facts) -> str:
    """The worker that the conversation's beginning hashes to (rendezvous), whatever its load."""
    return _order(facts)[0]


def bounded_hashing(facts: Facts) -> str:
    """The first in the order of hashes that is not over `BOUND` times the mean number of requests."""
    busy = {load.name: load.in_flight for load in facts.loads}
    most = math.ceil(BOUND * (sum(busy.values()) + 1) / len(facts.names))
    return next(name for name in _order(facts) if busy.get(name, 0) < most)


def product(settings: Settings, *, cached: bool) -> Policy:
    """hasten's choice with these settings; without `cached` it is blind to prefixes, and so takes the least loaded."""
    balance = Balance(pressure=settings.pressure, near=settings.near_worker, near_ms=settings.near_ms)
    usual = Usual(answer_ms=settings.service_prior_ms, token_ms=settings.token_ms, p95_ms=P95_MS)

    def choose(facts: Facts) -> str:
        key = anchor(facts.prefix) if cached else str(facts.number)
        work = Work(key=key, tokens=facts.tokens, cached=facts.cached if cached else {})
        found = best(facts.loads, work, usual, balance)
        return round_robin(facts) if found is None else found.name

    return choose


def policies(settings: Settings) -> dict[str, Policy]:
    """All of them by name."""
    return {
        "random": at_random,
        "round robin": round_robin,
        "least loaded": product(settings, cached=False),
        "consistent hashing": hashing,
        "… with bounded loads": bounded_hashing,
        "hasten": product(settings, cached=True),
    }
