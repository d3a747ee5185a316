"""Ingests many chunks into a retriever and an embedder of their own, and says how fast, in how much memory, and how
quickly questions are answered meanwhile: `python -m loadtest.ingestion --chunks 100000`.

The rate is given beside that of the embedder alone with the same texts in the same run, because nothing else ought to
bound it; latencies are those of searches with a vector, during the ingestion and after it in the same collection.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

from hasten.client import Hasten
from hasten.delivery import Delivery
from hasten.demo.script import documents as articles
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.retrieve import RETRIEVE, Document, Retrieve, Retrieved
from hasten.nats_server import free_port
from loadtest.crew import TENANT, Crew, crew

COLLECTION = "large"
PER_DOCUMENT = 10
WORDS = 20
SAMPLE_S = 5.0
ASK_S = 0.2
ALONE = 1024
QUESTIONS = 200


class Sample(msgspec.Struct, kw_only=True):
    """A moment: seconds since the beginning, chunks so far, chunks a second since the last, memory by process."""

    at_s: float
    chunks: int
    chunks_per_s: float
    rss_mb: dict[str, float]
    """Resident memory, of which the store's is mostly its files."""
    private_mb: dict[str, float]
    """What is in no file."""


class Watch:
    """Samples the memory of the crew and of what it starts, and asks questions."""

    def __init__(self, made: Crew, hasten: Hasten, vectors: list[bytes]) -> None:
        self._crew, self._hasten, self._vectors = made, hasten, vectors
        self.samples: list[Sample] = []
        self.began = time.monotonic()

    def processes(self) -> dict[str, list[psutil.Process]]:
        """By service; the engine of the store, and a compaction, are the retriever's children."""
        found = {"loadtest": [psutil.Process()]}
        for service, hands in self._crew.hands.items():
            found[service] = [psutil.Process(hands[0].member.pid)]
            if children := found[service][0].children(recursive=True):
                found[f"{service}'s store"] = children
        return found

    def memory(self) -> tuple[dict[str, float], dict[str, float]]:
        """Resident and private megabytes of each."""
        resident, private = dict[str, float](), dict[str, float]()
        for name, processes in self.processes().items():
            infos = [info for process in processes if (info := _memory(process)) is not None]
            resident[name] = round(sum(info.rss for info in infos) / 1e6, 1)
            private[name] = round(sum(info.rss - info.shared for info in infos) / 1e6, 1)
        return resident, private

    def cpu_s(self) -> dict[str, float]:
        """Seconds of the processor that each has used; a compaction that has ended is not counted."""
        return {
            name: round(sum(sum(process.cpu_times()[:2]) for process in processes), 1)
            for name, processes in self.processes().items()
        }

    async def sample(self, delivery: Delivery) -> None:
        """Samples without end."""
        while True:
            before, last = delivery.tally.chunks, time.monotonic()
            await asyncio.sleep(SAMPLE_S)
            now, chunks = time.monotonic(), delivery.tally.chunks
            rate = (chunks - before) / (now - last)
            rss_mb, private_mb = self.memory()
            one = Sample(at_s=now - self.began, chunks=chunks, chunks_per_s=rate, rss_mb=rss_mb, private_mb=private_mb)
            self.samples.append(one)
            memory = "  ".join(f"{name} {value:.0f} ({private_mb[name]:.0f})" for name, value in rss_mb.items())
            print(
                f"{one.at_s:6.0f} s {chunks:8d} chunks {rate:6.0f}/s  MB (private): {memory}",
                file=sys.stderr,
                flush=True,
            )

    async def ask(self, count: int | None, latencies: list[float], pause_s: float = 0.0) -> None:
        """Asks `count` questions, or without end, one after the other."""
        while count is None or len(latencies) < count:
            vector = self._vectors[len(latencies) % len(self._vectors)]
            body = Retrieve(query="", vector=vector, knowledge=[COLLECTION])
            began = time.perf_counter()
            reply = await self._hasten.bus.request(RETRIEVE, body, tenant=TENANT)
            if not isinstance(reply, Retrieved):
                raise SystemExit(f"a search failed: {reply}")
            latencies.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(pause_s)


def _memory(process: psutil.Process) -> Any:
    """None for one that has just ended."""
    try:
        return process.memory_info()
    except psutil.Error:
        return None


def most(samples: list[dict[str, float]]) -> dict[str, float]:
    """The largest value of each."""
    found: dict[str, float] = {}
    for sample in samples:
        found |= {name: max(value, found.get(name, 0.0)) for name, value in sample.items()}
    return found


def texts(chunks: int, words: int, seed: int = 7) -> Iterator[Document]:
    """Documents of `PER_DOCUMENT` sections with one chunk each, of words as they occur in the articles of the demo."""
    known = re.findall(r"[A-Za-z]{2,}", " ".join(article.text for article in articles()))
    rng = random.Random(seed)
    for number in range(0, chunks, PER_DOCUMENT):
        parts = (
            f"## {rng.choice(known)}\n\n{' '.join(rng.choices(known, k=words))}."
            for _ in range(min(PER_DOCUMENT, chunks - number))
        )
        yield Document(id=f"d{number}", title=rng.choice(known), text="\n\n".join(parts), source="loadtest")


async def embedded(hasten: Hasten, given: list[str]) -> list[bytes]:
    """The vectors of some texts, from the embedder."""
    reply = await hasten.bus.request(EMBED, Embed(texts=given), tenant=TENANT)
    if not isinstance(reply, Embedded):
        raise SystemExit(f"the embedder failed: {reply}")
    return reply.vectors


async def alone(hasten: Hasten, words: int) -> tuple[float, list[bytes]]:
    """Texts a second that the embedder makes vectors of when it does nothing else, and some of them."""
    parts = [part for one in texts(ALONE, words, seed=8) for part in one.text.split("\n\n## ")]
    began, vectors = time.perf_counter(), []
    for made in await asyncio.gather(*(embedded(hasten, parts[at : at + 64]) for at in range(0, len(parts), 64))):
        vectors += made
    return len(parts) / (time.perf_counter() - began), vectors


def lateness(address: str) -> dict[str, int]:
    """How often the event loop of a process woke up, and how often more than 50 ms too late."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        lines = dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines() if not line.startswith("#"))
    wakes = int(float(lines["hasten_loop_lag_seconds_count"]))
    return {"wakes": wakes, "late": wakes - int(float(lines['hasten_loop_lag_seconds_bucket{le="0.05"}']))}


def quantiles(latencies: list[float]) -> dict[str, float]:
    """Median and 95th percentile, in milliseconds."""
    cut = statistics.quantiles(latencies, n=20)
    return {"p50_ms": round(cut[9], 2), "p95_ms": round(cut[18], 2), "searches": len(latencies)}


async def run(args: argparse.Namespace) -> dict[str, Any]:
    """One ingestion, measured."""
    config = f"[embedder]\nthreads = {args.threads}\n[retriever]\nparallel = {args.parallel}\n"
    async with crew(config, args.models.resolve()) as made:
        exposed = {service: f"127.0.0.1:{free_port()}" for service in ("embedder", "retriever")}
        for service, address in exposed.items():
            await made.add(service, metrics=address)
        async with Hasten.connect(made.server.url, tenant=TENANT) as hasten:
            rate, vectors = await alone(hasten, args.words)
            delivery = Delivery(hasten, COLLECTION, refused=print)
            watch, during, after = Watch(made, hasten, vectors), list[float](), list[float]()
            before = watch.cpu_s()
            beside = [asyncio.create_task(watch.sample(delivery))]
            if not args.no_searches:
                beside.append(asyncio.create_task(watch.ask(None, during, ASK_S)))
            for document in texts(args.chunks, args.words):
                await delivery.offer(document, document.id)
            await delivery.finish()
            seconds = time.monotonic() - watch.began
            late = {service: await asyncio.to_thread(lateness, address) for service, address in exposed.items()}
            cpu_s = {name: round(used - before.get(name, 0.0), 1) for name, used in watch.cpu_s().items()}
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            skipping = time.perf_counter()
            again = Delivery(hasten, COLLECTION, refused=print)
            for document in texts(args.chunks, args.words):
                await again.offer(document, document.id)
            await again.finish()
            skipped = {"unchanged": again.tally.unchanged, "seconds": round(time.perf_counter() - skipping, 2)}
            await asyncio.sleep(args.rest)
            await watch.ask(QUESTIONS, after)
            return {
                **figures(args, delivery, watch, seconds, rate, cpu_s, during, after),
                "late": late,
                "again": skipped,
            }


def figures(
    args: argparse.Namespace,
    delivery: Delivery,
    watch: Watch,
    seconds: float,
    alone_per_s: float,
    cpu_s: dict[str, float],
    during: list[float],
    after: list[float],
) -> dict[str, Any]:
    """What is reported."""
    per_s = delivery.tally.chunks / seconds
    return {
        "chunks": delivery.tally.chunks,
        "documents": delivery.tally.ingested,
        "refused": delivery.tally.failed,
        "words": args.words,
        "threads": args.threads,
        "parallel": args.parallel,
        "seconds": round(seconds, 1),
        "chunks_per_s": round(per_s, 1),
        "embedder_alone_per_s": round(alone_per_s, 1),
        "share_of_embedder": round(per_s / alone_per_s, 3),
        "most_rss_mb": most([sample.rss_mb for sample in watch.samples]),
        "most_private_mb": most([sample.private_mb for sample in watch.samples]),
        "cpu_s": cpu_s,
        "while_ingesting": quantiles(during) if len(during) > 1 else {},
        "afterwards": quantiles(after),
        "samples": msgspec.to_builtins(watch.samples),
    }


def said(found: dict[str, Any]) -> str:
    """The report for people."""
    private, cpu = found["most_private_mb"], found["cpu_s"]
    memory = ", ".join(f"{name} {mb:.0f} ({private[name]:.0f})" for name, mb in found["most_rss_mb"].items())
    lines = [
        f"{found['chunks']} chunks of {found['words']} words in {found['seconds']} s: {found['chunks_per_s']} a second",
        f"the embedder alone: {found['embedder_alone_per_s']} a second; this is {found['share_of_embedder']:.0%} of it",
        f"most memory, of which private, in MB: {memory}",
        *(
            f"{name}: {one['late']} of {one['wakes']} wake-ups more than 50 ms late"
            for name, one in found["late"].items()
        ),
        f"seconds of the processor: {', '.join(f'{name} {used:.0f}' for name, used in cpu.items())}",
    ]
    again = found["again"]
    lines.append(f"the same once more: {again['unchanged']} documents found unchanged in {again['seconds']} s")
    if found["while_ingesting"]:
        during, after = found["while_ingesting"], found["afterwards"]
        lines.append(
            f"searches: p50 {during['p50_ms']} ms, p95 {during['p95_ms']} ms while ingesting; "
            f"{after['p50_ms']} and {after['p95_ms']} ms afterwards"
        )
    return "\n".join(lines)


def main() -> None:
    """Parses the arguments, runs and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--words", type=int, default=WORDS, help="words of a chunk")
    parser.add_argument("--threads", type=int, default=1, help="threads of the embedder")
    parser.add_argument("--parallel", type=int, default=8, help="documents that the retriever works on at once")
    parser.add_argument("--no-searches", action="store_true", help="ask nothing meanwhile")
    parser.add_argument("--rest", type=float, default=5.0, help="seconds between the ingestion and the last searches")
    parser.add_argument("--models", type=Path, default=Path(".hasten/models"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(run(args))
    print(json.dumps(found) if args.json else said(found))


if __name__ == "__main__":
    main()
