"""A pipeline's side: says that a row changed, so that answers that depended on it are given no more.

Plain NATS and JSON, no library of ours.  Usage: publish_change.py NATS_URL TABLE KEY [REASON]
"""

import asyncio
import json
import sys

import nats
import nats.errors
import nats.js.errors


async def silent(_: Exception) -> None:
    """Instead of the traceback that nats-py logs."""


async def main(url: str, table: str, key: str, reason: str = "") -> None:
    try:
        client = await asyncio.wait_for(nats.connect(url, error_cb=silent), 5)
    except (OSError, TimeoutError, nats.errors.Error):
        sys.exit("no NATS server answers there")
    change = {"op": "update", "table": table, "key": key, "reason": reason}
    try:
        stored = await client.jetstream().publish("hasten.v1.change.shop", json.dumps(change).encode())
    except nats.js.errors.NoStreamResponseError:
        sys.exit("NATS is there, but not the stream HASTEN_CHANGES: start hasten, which makes it")
    print(f"{table}:{key} changed: change {stored.seq} is stored, and within a second no answer from before is served")
    await client.close()


if len(sys.argv) < 4:
    sys.exit("usage: publish_change.py NATS_URL TABLE KEY [REASON]")
asyncio.run(main(*sys.argv[1:5]))
