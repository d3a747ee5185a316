"""A guard and a check of your own: one hides serial numbers in answers, the other says whether an answer has a price.

Plain NATS and JSON, no library of ours. Name them in the config of hasten:

    [[orchestrator.guard]]
    name = "serials"
    subject = "hasten.v1.guard.{tenant}.{rule}"

    [[orchestrator.checks]]
    name = "prices"
    subject = "hasten.v1.check.{tenant}.{check}"

Usage: guard.py [NATS_URL]
"""

import asyncio
import json
import re
import sys

import nats
import nats.errors
from nats.aio.msg import Msg

SERIAL = re.compile(r"SN-\d{6}")
BEGUN = re.compile(r"S(N(-\d{0,5})?)?$")
"""What the end of a piece may still become: it is not shown before it is known."""


async def silent(_: Exception) -> None:
    """Instead of the traceback that nats-py logs."""


async def guard(message: Msg) -> None:
    """Names the characters that must not be shown; they are replaced."""
    text = json.loads(message.data)["text"]
    spans = [{"start": found.start(), "end": found.end()} for found in SERIAL.finditer(text)]
    begun = BEGUN.search(text)
    hold = len(begun[0]) if begun else 0
    await message.respond(json.dumps({"type": "guard_verdict", "spans": spans, "hold": hold}).encode())


async def check(message: Msg) -> None:
    """Reads the whole answer; one that has not passed is shown, but not stored."""
    asked = json.loads(message.data)
    wanted, priced = "cost" in asked["question"].lower(), re.search(r"[$€]\s?\d|\d+ euros", asked["text"])
    passed, detail = not wanted or priced is not None, "" if priced else "no price in the answer"
    await message.respond(json.dumps({"type": "checked", "passed": passed, "detail": detail}).encode())


async def main(url: str) -> None:
    try:
        client = await asyncio.wait_for(nats.connect(url, error_cb=silent), 5)
    except (OSError, TimeoutError, nats.errors.Error):
        sys.exit("no NATS server answers there")
    await client.subscribe("hasten.v1.guard.*.serials", queue="serials", cb=guard)
    await client.subscribe("hasten.v1.check.*.prices", queue="prices", cb=check)
    await client.flush()
    print("listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
