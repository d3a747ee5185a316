"""Answers `$SRV.PING`, `INFO` and `STATS` in the format of NATS services (ADR-32), so that `nats micro ls` sees us.

`survey` is the other side: it asks everybody and takes the answers that come.
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hasten.inbox import is_inbox
from hasten.telemetry import logger

if TYPE_CHECKING:
    from hasten.bus import Bus
    from hasten.service import Service

log = logger("discovery")
_TYPE = "io.nats.micro.v1.{}_response"


class Endpoint(msgspec.Struct, kw_only=True):
    """One topic of a service and its counters; times are nanoseconds, as ADR-32 has them."""

    name: str
    subject: str
    queue_group: str = ""
    num_requests: int = 0
    num_errors: int = 0
    last_error: str = ""
    processing_time: int = 0

    def handled(self, seconds: float, error: str | None) -> None:
        """Counts one request and, with the code of its failure, one error."""
        self.num_requests += 1
        self.processing_time += int(seconds * 1e9)
        if error is not None:
            self.failed(error)

    def failed(self, error: str) -> None:
        """Counts an error."""
        self.num_errors += 1
        self.last_error = error

    def stats(self) -> dict[str, Any]:
        """The endpoint's row of a STATS response."""
        average = self.processing_time // self.num_requests if self.num_requests else 0
        return {**msgspec.to_builtins(self), "average_processing_time": average}


def _report(service: "Service") -> dict[str, Any]:
    try:
        return service.report()
    except Exception as error:
        log.error("%s: no figures of its own (%s)", service.name, type(error).__name__)
        return {}


def _held(service: "Service") -> dict[str, int]:
    """What the process holds, whichever of its services does: it goes back to what it was when nothing is asked."""
    bus, tasks = service.bus, len(asyncio.all_tasks())
    return {"outstanding": bus.outstanding, "subscriptions": bus.subscriptions, "tasks": tasks}


async def answer_discovery(service: "Service") -> list[Subscription]:
    """Subscribes to the nine discovery subjects of one service; returns the subscriptions."""
    started = datetime.now(UTC).isoformat()
    identity = {"name": service.name, "id": service.id, "version": service.version, "metadata": {}}

    def info() -> dict[str, Any]:
        endpoints = [
            {"name": one.name, "subject": one.subject, "queue_group": one.queue_group, "metadata": {}}
            for one in service.endpoints
        ]
        return {"description": service.summary, "endpoints": endpoints}

    def stats() -> dict[str, Any]:
        endpoints = [one.stats() for one in service.endpoints]
        own = {"active": service.active, "pending": service.pending, "draining": service.draining}
        report = {**_report(service), **own, **_held(service)}
        for endpoint in endpoints:
            endpoint["data"] = report
        return {"started": started, "endpoints": endpoints, "data": report}

    bodies = {"PING": dict, "INFO": info, "STATS": stats}
    made = []
    for verb, body in bodies.items():

        async def receive(msg: Msg, verb: str = verb, body: Any = body) -> None:
            if is_inbox(msg.reply):
                answer = {**identity, **body(), "type": _TYPE.format(verb.lower())}
                await service.bus.client.publish(msg.reply, msgspec.json.encode(answer))

        suffixes = ("", f".{service.name}", f".{service.name}.{service.id}")
        made += [await service.bus.subscribe(f"$SRV.{verb}{suffix}", receive) for suffix in suffixes]
    return made


class Running(msgspec.Struct, kw_only=True):
    """One running replica of a service, as it answers `$SRV.STATS`."""

    name: str
    id: str
    version: str
    started: str = ""
    endpoints: list[dict[str, Any]] = []
    data: dict[str, Any] = {}

    @property
    def report(self) -> dict[str, Any]:
        """The service's own figures; every endpoint of ours has them too, where other tools look."""
        found: dict[str, Any] = self.data or (self.endpoints[0].get("data", {}) if self.endpoints else {})
        return found


async def survey(bus: "Bus", *, idle_s: float = 0.3, first_s: float = 1.0, limit_s: float = 5.0) -> list[Running]:
    """Every replica that answers `$SRV.STATS`, by name.

    Nobody knows how many there are, so it ends `idle_s` after the last answer, after `first_s` without any, and
    after `limit_s` in any case.
    """
    found: list[Running] = []
    answers: asyncio.Queue[Msg] = asyncio.Queue()
    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, answers.put)
    await bus.client.publish("$SRV.STATS", b"", reply=inbox)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while True:
                answer = await asyncio.wait_for(answers.get(), idle_s if found else first_s)
                if answer.data:
                    found.append(msgspec.json.decode(answer.data, type=Running))
    await subscription.unsubscribe()
    return sorted(found, key=lambda one: (one.name, one.id))


async def running(bus: "Bus", name: str, *, timeout_s: float = 1.0) -> bool:
    """Whether at least one replica of the service answers `$SRV.PING` within `timeout_s`."""
    try:
        await bus.client.request(f"$SRV.PING.{name}", b"", timeout=timeout_s)
    except (nats.errors.Error, TimeoutError):
        return False
    return True
