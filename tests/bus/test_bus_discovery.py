"""`$SRV.PING`, `INFO` and `STATS` as ADR-32 has them, so that `nats micro` sees every service."""

import re
from datetime import datetime
from typing import Any

import msgspec
from nats.aio.msg import Msg
from patience import until
from small_talk import ECHO, TELL, Company, Say, echo, tell

from hasten.bus import Bus
from hasten.discovery import survey
from hasten.messages.failure import Failed
from hasten.nats_server import NatsServer
from hasten.service import Call

SEMVER = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
NAME = re.compile(r"[A-Za-z0-9_-]+")


async def answers(bus: Bus, subject: str, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def take(msg: Msg) -> None:
        found.append(msgspec.json.decode(msg.data))

    inbox = bus.client.new_inbox()
    subscription = await bus.client.subscribe(inbox, cb=take)
    await bus.client.publish(subject, b"", reply=inbox)
    await until(lambda: len(found) == count)
    await bus.flush()
    assert len(found) == count
    await subscription.unsubscribe()
    return found


def check_identity(answer: dict[str, Any], verb: str) -> None:
    assert answer["type"] == f"io.nats.micro.v1.{verb}_response"
    assert NAME.fullmatch(answer["name"])
    assert answer["id"]
    assert SEMVER.fullmatch(answer["version"])
    assert isinstance(answer["metadata"], dict)


async def test_every_verb_answers_at_all_three_addresses(bus: Bus, company: Company) -> None:
    one = await company.hear(ECHO, echo)
    await company.hear(ECHO, echo)
    await company.hear(TELL, tell)
    for verb in ("PING", "INFO", "STATS"):
        for answer in await answers(bus, f"$SRV.{verb}", 3):
            check_identity(answer, verb.lower())
        assert len(await answers(bus, f"$SRV.{verb}.test-echo", 2)) == 2
        (only,) = await answers(bus, f"$SRV.{verb}.test-echo.{one.id}", 1)
        assert only["id"] == one.id


async def test_info_describes_the_endpoints(bus: Bus, company: Company) -> None:
    await company.hear(ECHO, echo)
    (info,) = await answers(bus, "$SRV.INFO", 1)
    assert info["description"] == "Made up for a test."
    assert info["endpoints"] == [
        {"name": "echo", "subject": "hasten.v1.echo.*", "queue_group": "echo", "metadata": {}},
    ]


async def test_stats_count_requests_errors_and_nanoseconds(bus: Bus, company: Company) -> None:
    async def odd(say: Say, call: Call) -> Any:
        if say.text == "bad":
            raise Failed("not_found", "there is none")
        return await echo(say, call)

    await company.hear(ECHO, odd, report=lambda: {"entries": 3})
    for text in ("good", "bad", "good"):
        await bus.request(ECHO, Say(text=text, wait_s=0.01), tenant="acme")
    (stats,) = await answers(bus, "$SRV.STATS", 1)
    started = datetime.fromisoformat(stats["started"])
    assert started.tzinfo is not None
    (endpoint,) = stats["endpoints"]
    assert endpoint["name"] == "echo"
    assert endpoint["subject"] == "hasten.v1.echo.*"
    assert endpoint["queue_group"] == "echo"
    assert (endpoint["num_requests"], endpoint["num_errors"], endpoint["last_error"]) == (3, 1, "not_found")
    assert isinstance(endpoint["processing_time"], int)
    assert endpoint["processing_time"] >= 2 * 10_000_000
    assert endpoint["average_processing_time"] == endpoint["processing_time"] // 3
    known = {"entries": 3, "active": 0, "pending": 0, "draining": False, "outstanding": 0}
    assert endpoint["data"].items() >= known.items()
    assert stats["data"] == endpoint["data"], "a service without endpoints has figures as well"


async def test_a_survey_finds_every_replica(nats_server: NatsServer, bus: Bus, company: Company) -> None:
    assert await survey(bus, first_s=0.2) == []
    other = await Bus.connect(nats_server.url)
    await company.hear(ECHO, echo, report=lambda: {"entries": 1})
    await company.hear(ECHO, echo, bus=other)
    await company.hear(TELL, tell)
    found = await survey(bus)
    assert [one.name for one in found] == ["test-echo", "test-echo", "test-tell"]
    assert {one.report.get("entries") for one in found} == {1, None}
    await other.close()


async def test_a_report_that_fails_leaves_the_counters(bus: Bus, company: Company) -> None:
    def broken() -> dict[str, Any]:
        raise ValueError("no figures")

    await company.hear(ECHO, echo, report=broken)
    (stats,) = await answers(bus, "$SRV.STATS", 1)
    assert stats["endpoints"][0]["num_requests"] == 0


async def test_a_service_that_has_drained_is_not_listed(bus: Bus, company: Company) -> None:
    service = await company.hear(ECHO, echo)
    await service.drain()
    assert await survey(bus, first_s=0.2) == []
