"""Asks hasten from a plain NATS client: JSON in, JSON out, no library of ours.  Usage: plain_nats.py [NATS_URL]"""

import asyncio
import json
import sys

import nats
import nats.errors


async def silent(_: Exception) -> None:
    """Instead of the traceback that nats-py logs."""


async def main(url: str) -> None:
    try:
        client = await asyncio.wait_for(nats.connect(url, error_cb=silent), 5)
    except (OSError, TimeoutError, nats.errors.Error):
        sys.exit("no NATS server answers there")
    replies = await client.subscribe(inbox := client.new_inbox())
    question = {"messages": [{"role": "user", "content": "Say hello."}]}
    await client.publish("hasten.v1.chat.acme", json.dumps(question).encode(), reply=inbox)
    async for message in replies.messages:
        if not message.data:
            sys.exit("NATS is there, but no orchestrator listens (status 503)")
        event = json.loads(message.data)
        print(event.get("text", ""), end="", flush=True)
        if event["type"] in ("done", "failure"):
            break
    print(f"\n{event['type']}: {event.get('cache', event.get('code', 'miss'))}")
    await client.close()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
