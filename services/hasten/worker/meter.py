"""What a worker counts for Prometheus, with the names that inference servers use; the model is the only label."""

from hasten.messages.chat import Usage
from hasten.messages.generate import Status
from hasten.telemetry import PER_TOKEN, counter, gauge, histogram

_ttft = histogram("worker_time_to_first_token_seconds", "From hearing a generation to its first delta", "model")
_tpot = histogram(
    "worker_time_per_output_token_seconds", "Per token after the first one of an answer", "model", buckets=PER_TOKEN
)
_queue = histogram("worker_queue_time_seconds", "Time a generation waited for a slot", "model")
_prompt = counter("worker_prompt_tokens_total", "Tokens of prompts, those that the engine had included", "model")
_cached = counter("worker_cached_tokens_total", "Tokens of prompts that the engine had and did not compute", "model")
_generated = counter("worker_generation_tokens_total", "Tokens generated", "model")
_crashes = counter("worker_engine_crashes_total", "Times the engine broke and was started again", "model")
_running = gauge("worker_requests_running", "Generations in a slot", "model")
_waiting = gauge("worker_requests_waiting", "Generations in line for a slot", "model")
_slots = gauge("worker_slots", "Generations that the engine runs at once", "model")
_ready = gauge("worker_ready", "1 while it takes requests", "model")


class Meter:
    """The figures of one worker."""

    def __init__(self, model: str) -> None:
        self._ttft, self._tpot, self._queue = _ttft.labels(model), _tpot.labels(model), _queue.labels(model)
        self._prompt, self._cached = _prompt.labels(model), _cached.labels(model)
        self._generated, self._crashes = _generated.labels(model), _crashes.labels(model)
        self._running, self._waiting = _running.labels(model), _waiting.labels(model)
        self._slots, self._ready = _slots.labels(model), _ready.labels(model)

    def waited(self, ms: float) -> None:
        """A generation has got a slot after so long."""
        self._queue.observe(ms / 1000)

    def spoke(self, ms: float) -> None:
        """A generation has said its first token after so long."""
        self._ttft.observe(ms / 1000)

    def done(self, usage: Usage, decode_ms: float) -> None:
        """A generation has ended, so long after its first token."""
        self._prompt.inc(usage.prompt_tokens)
        self._cached.inc(usage.cached_tokens)
        self._generated.inc(usage.completion_tokens)
        if usage.completion_tokens > 1:
            self._tpot.observe(decode_ms / 1000 / (usage.completion_tokens - 1))

    def crashed(self) -> None:
        """The engine broke."""
        self._crashes.inc()

    def says(self, status: Status) -> None:
        """How busy it is."""
        self._running.set(status.active)
        self._waiting.set(status.queued)
        self._slots.set(status.slots)
        self._ready.set(status.state == "ready")
