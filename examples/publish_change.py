"""A pipeline's side: says that a row changed, so that answers that depended on it are given no more.

Plain NATS and JSON, no library of ours.  Usage: publish_change.py NATS_URL TABLE KEY [REASON]
"""

import asyncio
import json
import sys

import nats


async def main(url: str, table: str, key: str, reason: str = "") -> None:
    client = await nats.connect(url)
    change = {"op": "update", "table": table, "key": key, "reason": reason}
    stored = await client.jetstream().publish("hasten.v1.change.shop", json.dumps(change).encode())
    print(f"{table}:{key} changed: change {stored.seq} is stored, and within a second no answer from before is served")
    await client.close()


asyncio.run(main(*sys.argv[1:5]))
