"""What is wrong with a running system, what that means and what to do about it, from what its services say."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from hasten.discovery import Running
from hasten.messages.route import ModelInfo

NEEDED = {
    "gateway": "nobody is answered over HTTP; clients of NATS are",
    "orchestrator": "no request is answered",
    "router": "no request that needs a model is answered",
    "compressor": "no request that needs a model is answered",
    "worker": "no request that needs a model is answered",
    "cache": "every question goes to a model, and nothing is remembered",
    "embedder": "questions are remembered by their exact words only, and passages found by words only",
    "retriever": "requests that name collections fail, and documents are not taken in",
}
"""What a system lacks without a service."""
LATE = 1000
"""Changes that come between one answer and the next of a busy system are no sign of anything."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is `missing`, or that deserves a `warning`: what it is, what it means, and what to do."""

    level: Literal["missing", "warning"]
    what: str
    means: str
    do: str


def problems(
    services: Sequence[Running], models: Sequence[ModelInfo], url: str, without: Collection[str] = ()
) -> list[Problem]:
    """What is wrong, the worst first. Services in `without` are not meant to be there."""
    found = [*_missing(services, models, url, without), *_down(services), *_breakers(models), *_alarms(services)]
    found += [*_versions(services), *_late(services)]
    return sorted(found, key=lambda one: one.level != "missing")


def _missing(
    services: Sequence[Running], models: Sequence[ModelInfo], url: str, without: Collection[str]
) -> Iterator[Problem]:
    running = {one.name for one in services}
    for name, means in NEEDED.items():
        if name not in running and name not in without:
            do = f"hasten run {name} --nats {url}"
            yield Problem(level="missing", what=f"no {name} answers", means=means, do=do)
    for model in models if "worker" in running else ():
        if not model.workers:
            means = "who asks for it is refused, and others get the next best"
            do = f"hasten run worker --model {model.name} --nats {url}; or take it out of the model table"
            yield Problem(level="missing", what=f"no worker of {model.name} is ready", means=means, do=do)


def _down(services: Iterable[Running]) -> Iterator[Problem]:
    for one in services:
        if one.report.get("state") == "down":
            yield Problem(
                level="warning",
                what=f"worker {one.report.get('worker', one.id)} is down",
                means=f"its engine for {one.report.get('model', 'its model')} does not run; it tries again by itself",
                do="its log says why the engine does not start: weights, memory, or a server that is away",
            )


def _breakers(models: Iterable[ModelInfo]) -> Iterator[Problem]:
    for model in models:
        for one in model.each:
            if one.breaker == "open":
                yield Problem(
                    level="warning",
                    what=f"worker {one.name} of {model.name} has failed too often",
                    means="it gets no requests for a while, then a few to try",
                    do="its log and `hasten top` say what it fails at; restart it if it does not recover",
                )


def _alarms(services: Iterable[Running]) -> Iterator[Problem]:
    for one in services:
        if one.name == "cache" and one.report.get("hit_rate_alarm"):
            yield Problem(
                level="warning",
                what=f"the hit rate by meaning of cache {one.id[:8]} has jumped",
                means="unlike questions may be taken for alike: hits by meaning are off there",
                do="`hasten explain QUESTION` shows why questions hit; `hasten cache` judges them and sets thresholds",
            )


def _versions(services: Iterable[Running]) -> Iterator[Problem]:
    versions = sorted({one.version for one in services})
    if len(versions) > 1:
        yield Problem(
            level="warning",
            what=f"there are {len(versions)} versions: {', '.join(versions)}",
            means="that is well during an update, and not meant to last",
            do="restart the older ones",
        )


def _late(services: Iterable[Running]) -> Iterator[Problem]:
    """A replica of cache or orchestrator that has heard fewer changes than another one."""
    readers = [one for one in services if isinstance(one.report.get("applied"), int) and one.name != "retriever"]
    newest = max((int(one.report["applied"]) for one in readers), default=0)
    for one in readers:
        behind = newest - int(one.report["applied"])
        if behind > LATE:
            yield Problem(
                level="warning",
                what=f"{one.name} {one.id[:8]} is {behind} changes behind another replica",
                means="it serves no stored answers until it has caught up",
                do="give it more processor time, or look at its connection to NATS",
            )
