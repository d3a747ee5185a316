"""One request on the engine: its deltas go to the caller as chunks, and what it took is measured."""

from contextlib import aclosing

import nats.errors

from hasten.chunks import ChunkWriter
from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failed
from hasten.messages.generate import Generate
from hasten.service import Call
from hasten.telemetry import Stopwatch
from hasten.worker.confidence import Tally
from hasten.worker.engines import End, Engine, EngineError
from hasten.worker.line import Place
from hasten.worker.meter import Meter
from hasten.worker.speed import Speed


class Generation:
    """The answer to one call, whose `clock` runs since it was heard. `chunks` is how many have been sent."""

    def __init__(
        self, engine: Engine, model: str, call: Call, clock: Stopwatch, place: Place, speed: Speed, meter: Meter
    ) -> None:
        self._engine, self._model, self._call, self._clock, self._place = engine, model, call, clock, place
        self._speed, self._meter = speed, meter
        self._writer = ChunkWriter(self._send)
        self._first_ms = 0.0

    @property
    def chunks(self) -> int:
        """How many chunks the caller has been sent."""
        return self._writer.count

    async def run(self, request: Generate) -> Done:
        """Sends everything but the end, which it returns; raises what the engine raises, and Failed(disconnected)."""
        key = f"{self._call.tenant}/{self._call.request_id}"
        try:
            return await self._relay(key, request)
        except EngineError:
            await self._writer.flush()
            raise
        finally:
            self._writer.discard()
            await self._engine.abort(key)

    async def _relay(self, key: str, request: Generate) -> Done:
        clock, writer = self._clock, self._writer
        began, tally = clock.elapsed_ms(), Tally(request.confidence_after)
        async with aclosing(self._engine.generate(key, request)) as events:
            async for event in events:
                if isinstance(event, End):
                    await writer.finish()
                    if (note := tally.note()) is not None:
                        await self._say(note)
                    return self._done(event)
                if not self._first_ms:
                    self._first_ms = clock.elapsed_ms()
                    clock.record("first_token", began)
                    self._meter.spoke(self._first_ms)
                if (note := tally.add(event.logprobs)) is not None:
                    await self._say(note)
                told = event.tokens or None
                await writer.write(event.text, reasoning=event.reasoning, tool_calls=event.tool_calls, logprobs=told)
        raise EngineError("incomplete", "the engine ended without a result")

    def _done(self, end: End) -> Done:
        clock, usage = self._clock, end.usage
        clock.record("decode", self._first_ms or clock.elapsed_ms())
        computed = usage.prompt_tokens - usage.cached_tokens
        self._speed.finished(clock.stages.get("first_token", 0.0), computed, clock.stages["decode"])
        self._meter.done(usage, clock.stages["decode"])
        return Done(
            finish_reason=end.finish_reason,
            usage=usage,
            model=self._model,
            timings_ms=clock.stages,
            ttft_ms=round(self._first_ms, 3),
            chunks=self.chunks,
        )

    async def _send(self, chunk: Chunk) -> None:
        self._place.spoken = True
        await self._say(chunk)

    async def _say(self, event: Chunk | Note) -> None:
        """A connection that is gone is no fault of the engine."""
        try:
            await self._call.send(event)
        except nats.errors.Error as error:
            raise Failed("disconnected", f"NATS: {type(error).__name__}", retry_after_ms=1000) from None
