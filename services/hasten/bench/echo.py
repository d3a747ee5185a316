"""The baseline: a bare nats-py responder in a process of its own, as a service is."""

import asyncio
import sys

import nats
from nats.aio.msg import Msg

from hasten.run import run_loop


async def echo(url: str, subject: str) -> int:
    """`python -m hasten.bench.echo SUBJECT`: answers every message with its own bytes until stdin ends.

    The URL is the first line of stdin, because it can hold a password and arguments are seen by everybody.
    """
    client = await nats.connect(url)

    async def answer(msg: Msg) -> None:
        await msg.respond(msg.data)

    await client.subscribe(subject, cb=answer)
    await client.flush()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await client.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_loop(echo(sys.stdin.readline().strip(), sys.argv[1])))
