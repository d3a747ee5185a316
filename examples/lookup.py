"""A look-up of your own: answers what the retriever asks about stock.

Plain NATS and JSON, no library of ours. Name it in the config of hasten, and ask with `-k stock`:

    [retriever.lookups.stock]

Usage: lookup.py [NATS_URL]
"""

import asyncio
import json
import sys

import nats
import nats.errors
from nats.aio.msg import Msg

STOCK = {"k2": "Kettle K2: 17 are in stock.", "t9": "Toaster T9: none is in stock."}


async def silent(_: Exception) -> None:
    """Instead of the traceback that nats-py logs."""


async def answer(message: Msg) -> None:
    """The rows that share a word with the question, best first; `limit` is sent where it is not 8."""
    asked = json.loads(message.data)
    words = set(asked["query"].lower().strip("?!. ").split())
    near = {key: len(words & set(text.lower().split())) for key, text in STOCK.items()}
    best = sorted((key for key in STOCK if near[key]), key=lambda key: -near[key])[: asked.get("limit", 8)]
    passages = [{"id": key, "text": STOCK[key], "tags": [f"stock:{key}"]} for key in best]
    await message.respond(json.dumps({"type": "found", "passages": passages}).encode())


async def main(url: str) -> None:
    try:
        client = await asyncio.wait_for(nats.connect(url, error_cb=silent), 5)
    except (OSError, TimeoutError, nats.errors.Error):
        sys.exit("no NATS server answers there")
    await client.subscribe("hasten.v1.lookup.*.stock", queue="stock", cb=answer)
    await client.flush()
    print("listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
