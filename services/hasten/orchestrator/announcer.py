"""Tells everybody that a request has ended and how: neither its words nor its answer's."""

import contextlib

import nats.errors

from hasten.bus import Bus
from hasten.fingerprint import question_hash
from hasten.messages.cache import SERVED, Served
from hasten.messages.chat import FINISHED, Done, Finished
from hasten.messages.failure import Failed
from hasten.orchestrator.permission import outcome_of
from hasten.orchestrator.reader import Reader
from hasten.telemetry import PER_TOKEN, Names, counter, histogram
from hasten.topics import random_id

_answers = counter("answers_total", "Requests that ended, by source of the answer or failure code", "source")
_tenants = counter(
    "tenant_requests_total", "Requests that ended, by tenant; those beyond the first 64 are other", "tenant"
)
_ttft = histogram("time_to_first_token_seconds", "From a request's arrival to its first chunk", "source")
_tpot = histogram(
    "time_per_output_token_seconds", "Per token after the first one of a generated answer", buckets=PER_TOKEN
)
_latency = histogram("e2e_request_latency_seconds", "From a request's arrival to its end", "source")
_stage = histogram("stage_duration_seconds", "Time of a stage of requests that were generated for", "stage")


class Announcer:
    """Numbers what it announces for one replica; `counts` are the requests by source of the answer or failure code."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._source, self._finished = bus, random_id(), 0
        self.counts: dict[str, int] = {}
        self._tenants = Names()

    def _generated(self, reader: Reader, done: Done) -> None:
        later = done.usage.completion_tokens - 1
        if later > 0 and not reader.resumed:
            _tpot.observe(max(0.0, reader.watch.elapsed_ms() - reader.ttft_ms) / 1000 / later)
        for stage, took_ms in done.timings_ms.items():
            _stage.labels(stage).observe(took_ms / 1000)

    async def announce(self, reader: Reader) -> None:
        """Says how the request of a reader has ended."""
        call, plan = reader.call, reader.plan
        outcome = "done" if isinstance(reader.ended, Done) else getattr(reader.ended, "code", "cancelled")
        done = reader.ended if isinstance(reader.ended, Done) else Done(finish_reason="")
        source = done.cache if outcome == "done" else outcome
        self._finished += 1
        self.counts[source] = self.counts.get(source, 0) + 1
        _answers.labels(source).inc()
        _tenants.labels(self._tenants.of(call.tenant)).inc()
        _latency.labels(source).observe(reader.watch.elapsed_ms() / 1000)
        if reader.chunks and not reader.resumed:
            _ttft.labels(source).observe(reader.ttft_ms / 1000)
        if source == "miss":
            self._generated(reader, done)
        flight = reader.flight
        found = outcome_of(done.cache, reader.hit, flight.miss if flight else None, asked=plan.read_exact)
        event = Finished(
            source=self._source,
            seq=self._finished,
            request_id=call.request_id,
            outcome=outcome,
            cache=done.cache,
            model=done.model,
            slug=flight.slug if flight and not reader.rejoined else "",
            worker=flight.worker if flight and not reader.rejoined else "",
            ttft_ms=reader.ttft_ms,
            worker_ttft_ms=flight.worker_ttft_ms if flight and not reader.rejoined else 0.0,
            total_ms=round(reader.watch.elapsed_ms(), 3),
            usage=done.usage,
            timings_ms=done.timings_ms,
            **found,
        )
        with contextlib.suppress(nats.errors.Error, Failed):
            await self._bus.publish(FINISHED, event, tenant=call.tenant)
            if reader.hit.get("hit") == "semantic":
                served = Served(entry_id=reader.hit["entry_id"], question=question_hash(plan.fingerprint.text))
                await self._bus.publish(SERVED, served, tenant=call.tenant, request_id=call.request_id)
