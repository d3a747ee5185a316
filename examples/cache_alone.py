"""Only the cache and the embedder: your code asks your own model, and hasten remembers the answers.

hasten run embedder --nats nats://127.0.0.1:4222 &
hasten run cache --nats nats://127.0.0.1:4222 &
python examples/cache_alone.py nats://127.0.0.1:4222
"""

import asyncio
import hashlib
import sys

from hasten.bus import Bus, Unreachable
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    INVALIDATE,
    Answer,
    CacheHit,
    CacheLookup,
    CachePut,
    Invalidate,
)
from hasten.messages.embed import EMBED, Embed
from hasten.messages.failure import Failed

TENANT = "acme"
PARTITION = "support-bot-1"
"""Whatever else your answers depend on: the model, its settings, the system prompt. Change it when they change."""
PRICES = {"express": 9, "standard": 4}


def my_model(question: str) -> tuple[Answer, list[str]]:
    """Stands for the model that you call: its answer, and the rows of the price list that the answer depends on."""
    kind = "express" if "express" in question else "standard"
    return Answer(text=f"A parcel by {kind} post is {PRICES[kind]} euros.", model="my-model"), [f"prices:{kind}"]


async def ask(bus: Bus, question: str) -> str:
    """The answer from the cache, by key or by meaning, or else from the model; then it is stored."""
    key = hashlib.sha256(f"{PARTITION}\n{question}".encode()).hexdigest()
    found = await bus.request(CACHE_LOOKUP, CacheLookup(key=key), tenant=TENANT)
    if isinstance(found, CacheHit):
        return f"{found.kind} hit: {found.answer.text}"
    vector = (await bus.request(EMBED, Embed(texts=[question]), tenant=TENANT)).vectors[0]
    here = {"key": key, "partition": PARTITION, "text": question, "vector": vector}
    found = await bus.request(CACHE_LOOKUP, CacheLookup(**here), tenant=TENANT)
    if isinstance(found, CacheHit):
        return f"{found.kind} hit: {found.answer.text}"
    answer, tags = my_model(question)
    put = CachePut(**here, answer=answer, tags=tags, read_seq=found.read_seq)
    await bus.request(CACHE_PUT, put, tenant=TENANT)
    return f"miss ({found.guard or found.reason}): {answer.text}"


async def main(url: str) -> None:
    """Asks, asks again, asks in other words, asks for something else, and changes the price."""
    bus = await Bus.connect(url, name="cache-alone")
    print(await ask(bus, "How much does it cost to send a parcel by express post?"))
    print(await ask(bus, "How much does it cost to send a parcel by express post?"))
    print(await ask(bus, "What does it cost to send a parcel by express post, please?"))
    print(await ask(bus, "How much does it cost to send a parcel by standard post?"))
    PRICES["express"] = 11
    done = await bus.request(INVALIDATE, Invalidate(tags=["prices:express"], reason="new prices"), tenant=TENANT)
    print(f"invalidated {done.entries} entries in {done.waited_ms:.0f} ms")
    print(await ask(bus, "How much does it cost to send a parcel by express post?"))
    await bus.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
    except (Unreachable, Failed) as error:
        sys.exit(str(error))
