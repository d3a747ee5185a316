"""Kills the retriever (now and then the embedder, the NATS server) with SIGKILL at random moments while documents are
changed and questions asked, and checks every answer: `python -m loadtest.ingestion_faults --kills 30`.

Wrong is half a document, two versions in one answer, a version older than one that was said to be applied or that the
answer's `read_seq` covers, a deleted document that is seen again; and in the end anything that is not the last version.
"""

import argparse
import asyncio
import contextlib
import json
import random
import time
from pathlib import Path
from typing import Any, Literal

from nats.aio.msg import Msg

from hasten.client import Hasten
from hasten.codec import decode
from hasten.messages.failure import Failed
from hasten.messages.retrieve import INGESTED, RETRIEVE, Document, Ingested, Retrieve, Retrieved
from hasten.topics import random_id
from loadtest.crew import TENANT, Crew, crew
from loadtest.versions import PARTS, Version, Versions, text_of

COLLECTION = "help"
DOCUMENTS = 40
DELETED = 0.15
"""Share of versions that delete."""
SETTLE_S = 120.0
CONFIG = "[retriever]\nack_wait_s = 3.0\nretry_max_s = 1.0\nembed_timeout_s = 3.0\n"


class Storm:
    """What happens at once: versions are sent, questions asked and processes killed."""

    def __init__(self, made: Crew, hasten: Hasten, seed: int) -> None:
        self._crew, self._hasten, self._rng = made, hasten, random.Random(seed)
        self.versions = Versions()
        self.sent = self.answers = self.unanswered = 0
        self.kills: dict[str, int] = {}
        self.over = False

    async def on_ingested(self, msg: Msg) -> None:
        """Notes what is said to be applied."""
        event: Ingested = decode(Ingested, msg.data)
        if event.error is not None:
            self.versions.wrong.append(f"{event.id}: refused ({event.error})")
        else:
            self.versions.applied(event.id, event.sequence)

    async def send(self, pause_s: float) -> None:
        """Sends versions until it is over; of each it is known in the end where it stands in the stream."""
        while not self.over:
            name = f"d{self._rng.randrange(DOCUMENTS)}"
            version = self.versions.next(name, deleted=self._rng.random() < DELETED)
            version.sequence = await self._stored(name, version)
            self.sent += 1
            await asyncio.sleep(pause_s)

    async def _stored(self, name: str, version: Version) -> int:
        text = "" if version.deleted else text_of(name, version)
        op: Literal["upsert", "delete"] = "delete" if version.deleted else "upsert"
        document, message_id = Document(id=name, op=op, text=text, metadata={"name": name}), random_id()
        while True:
            with contextlib.suppress(Failed):
                return await self._hasten.store(COLLECTION, document, message_id=message_id)
            await asyncio.sleep(0.05)

    async def ask(self, vector: bytes) -> None:
        """Asks for all of one document after the other until it is over."""
        while not self.over:
            await self.ask_for(f"d{self._rng.randrange(DOCUMENTS)}", vector)

    async def ask_for(self, name: str, vector: bytes) -> bool:
        """Asks for all of a document, and whether there was an answer."""
        floor = self.versions.floor(name)
        body = Retrieve(query="", vector=vector, knowledge=[COLLECTION], filter={"name": name}, limit=4 * PARTS)
        reply = await self._hasten.bus.request(RETRIEVE, body, tenant=TENANT)
        if isinstance(reply, Retrieved):
            self.answers += 1
            self.versions.check(name, [one.text for one in reply.passages], floor, reply.read_seq)
            return True
        self.unanswered += 1
        await asyncio.sleep(0.02)
        return False

    async def kill(self, victim: str) -> None:
        """Kills one process at a random moment and starts it again."""
        await asyncio.sleep(self._rng.uniform(0.05, 1.5))
        self.kills[victim] = self.kills.get(victim, 0) + 1
        if victim == "nats":
            await self._crew.server.stop(kill=True)
            await self._crew.server.start()
        else:
            await self._crew.again(self._crew.hands[victim][0])

    def victims(self, kills: int) -> list[str]:
        """Whom to kill, in a random order: the retriever so often, the others a sixth of it and a tenth."""
        chosen = ["retriever"] * kills + ["embedder"] * (kills // 6) + ["nats"] * (kills // 10)
        self._rng.shuffle(chosen)
        return chosen

    async def settle(self, vector: bytes) -> None:
        """Waits until all has been applied, and looks at every document and at what the store holds in all."""
        names = [name for number in range(DOCUMENTS) if self.versions.last(name := f"d{number}") is not None]
        last = {name: version for name in names if (version := self.versions.last(name)) is not None}
        async with asyncio.timeout(SETTLE_S):
            await self._until_read(max(version.sequence or 0 for version in last.values()))
            for name, version in last.items():
                self.versions.applied(name, version.sequence or 0)
                while not await self.ask_for(name, vector):
                    pass
            await self._until_counted(sum(not version.deleted for version in last.values()))

    async def _until_read(self, sequence: int) -> None:
        while True:
            with contextlib.suppress(Failed):
                if (await self._hasten.documents(COLLECTION, ids=["d0"])).read_seq >= sequence:
                    return
            await asyncio.sleep(0.1)

    async def _until_counted(self, documents: int) -> None:
        """Returns when the store holds so many documents and their chunks, and nothing of older versions."""
        reports: list[dict[str, Any]] = []
        while not any(one["documents"] == documents and one["passages"] == documents * PARTS for one in reports):
            await asyncio.sleep(1.0)
            reports = [one.report for one in await self._hasten.services() if one.name == "retriever"]


async def run(args: argparse.Namespace) -> dict[str, Any]:
    """One storm, and what was seen in it."""
    async with crew(CONFIG, args.models.resolve()) as made:
        await made.add("embedder")
        await made.add("retriever")
        async with Hasten.connect(made.server.url, tenant=TENANT) as hasten:
            storm = Storm(made, hasten, args.seed)
            await hasten.bus.subscribe(INGESTED.subject(tenant=TENANT), storm.on_ingested)
            vector = b"\0\0\x80?" + bytes(4 * (args.dim - 1))
            began = time.monotonic()
            beside = [asyncio.create_task(storm.send(args.pause))]
            beside += [asyncio.create_task(storm.ask(vector)) for _ in range(args.askers)]
            for victim in storm.victims(args.kills):
                await storm.kill(victim)
            storm.over = True
            await asyncio.gather(*beside)
            unsettled = ""
            try:
                await storm.settle(vector)
            except TimeoutError:
                unsettled = f"not everything was applied within {SETTLE_S:g} s"
            return {
                "seconds": round(time.monotonic() - began, 1),
                "kills": storm.kills,
                "versions_sent": storm.sent,
                "answers_checked": storm.answers,
                "unanswered": storm.unanswered,
                "wrong": [*storm.versions.wrong, *([unsettled] if unsettled else [])],
            }


def main() -> None:
    """Parses the arguments, runs, prints, and ends with 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--kills", type=int, default=30, help="how often the retriever is killed")
    parser.add_argument("--askers", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.03, help="seconds between two versions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dim", type=int, default=384, help="of the embedding model")
    parser.add_argument("--models", type=Path, default=Path(".hasten/models"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(run(args))
    if args.json:
        print(json.dumps(found))
    else:
        kills = ", ".join(f"{name} {count}" for name, count in found["kills"].items())
        print(f"killed: {kills}; {found['versions_sent']} versions sent in {found['seconds']} s")
        print(f"{found['answers_checked']} answers checked, {len(found['wrong'])} wrong, {found['unanswered']} without")
        print("\n".join(found["wrong"][:20]))
    raise SystemExit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
