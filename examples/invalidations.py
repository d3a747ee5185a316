"""Hears which of a tenant's cached answers are gone and why, for instance to empty another cache behind hasten.

Plain NATS and JSON, no library of ours. These events may be lost: they are for caches and screens, not for books.
Usage: invalidations.py NATS_URL TENANT [HOW_MANY]
"""

import asyncio
import json
import sys

import nats
import nats.errors


async def silent(_: Exception) -> None:
    """Instead of the traceback that nats-py logs."""


async def main(url: str, tenant: str, how_many: str = "0") -> None:
    try:
        client = await asyncio.wait_for(nats.connect(url, max_reconnect_attempts=-1, error_cb=silent), 5)
    except (OSError, TimeoutError, nats.errors.Error):
        sys.exit("no NATS server answers there")
    events = await client.subscribe(f"hasten.v1.invalidated.{tenant}")
    await client.flush()
    print("listening", flush=True)
    heard = 0
    async for message in events.messages:
        gone = json.loads(message.data)
        tags = " ".join(gone["tags"]) or "(the least recently used)"
        print(f"{gone.get('entries', 0)} answers gone, {gone.get('reason')}: {tags}", flush=True)
        heard += 1
        if heard == int(how_many):
            break
    await client.close()


if len(sys.argv) < 3:
    sys.exit("usage: invalidations.py NATS_URL TENANT [HOW_MANY]")
asyncio.run(main(*sys.argv[1:4]))
