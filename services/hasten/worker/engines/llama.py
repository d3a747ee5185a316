"""llama.cpp in this process, through xllamacpp: its threads compute, and the event loop only hears of it."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Self

from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.settings import SettingsError
from hasten.weights import FETCH, WeightsMissing, folder
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.body import chat_body
from hasten.worker.engines.engine import Delta, End, EngineError
from hasten.worker.engines.flow import Flow, relay

BATCH = 64
"""Prompt tokens per step. Between steps others get their tokens and an abort takes effect: one core needs about 170 ms
for this many with the embedded model, and 8% less in all for steps of 2,048 (5 s in which nobody else gets a token)."""
PROMPT_CACHE_MIB = 256
"""Memory for prompts that have lost their slot."""
SAMPLING = frozenset(
    {
        "chat_template_kwargs",
        "dry_allowed_length",
        "dry_base",
        "dry_multiplier",
        "dry_penalty_last_n",
        "dynatemp_exponent",
        "dynatemp_range",
        "grammar",
        "ignore_eos",
        "json_schema",
        "logit_bias",
        "min_keep",
        "min_p",
        "mirostat",
        "mirostat_eta",
        "mirostat_tau",
        "repeat_last_n",
        "repeat_penalty",
        "top_k",
        "top_n_sigma",
        "typical_p",
        "xtc_probability",
        "xtc_threshold",
    }
)
"""The options of llama.cpp that a request may set; the others would steer the server."""


class LlamaEngine:
    """A GGUF model with as many slots as the row says, each with a whole context window and its own prefix cache."""

    continues = True

    def __init__(self, model: Model, path: Path) -> None:
        self._model, self._path = model, path
        self.slots = model.engine.slots
        self.capabilities = sorted({"json"} | ({"tools"} & set(model.capabilities)))
        self._server: Any = None
        self._pool = ThreadPoolExecutor(2 * self.slots, thread_name_prefix="llama")
        self._flows: dict[str, Flow] = {}
        self._running: set[Future[None]] = set()

    @classmethod
    def from_config(cls, model: Model, data: Path) -> Self:
        """An engine for the file `path` in the data folder's models/ (or an absolute path)."""
        if not model.engine.path:
            raise SettingsError(f"the model {model.name} needs a path to a GGUF file")
        return cls(model, folder(data) / model.engine.path)

    async def start(self) -> None:
        """Loads the file, about half a second; raises WeightsMissing, ImportError or SettingsError in one sentence."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self._load)

    def _load(self) -> None:
        if not self._path.is_file():
            raise WeightsMissing(f"the model file {self._path} is missing: {FETCH}")
        try:
            import xllamacpp
        except ImportError:
            raise ImportError("the engine llama needs `pip install 'hasten[embedded]'`") from None
        try:
            server = xllamacpp.Server(self._params(xllamacpp.CommonParams()))
        except RuntimeError:
            raise SettingsError(f"llama.cpp cannot load {self._path}") from None
        self._warm_up(server)
        self._server = server

    def _warm_up(self, server: Any) -> None:
        """Generates a token: a server freed before its loop runs waits for it for ever, and holds Python's lock."""
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        with suppress(Exception):
            server.handle_chat_completions(body, lambda _: False)

    def _params(self, params: Any) -> Any:
        engine = self._model.engine
        params.model.path = str(self._path)
        params.n_parallel = self.slots
        params.n_ctx = self._model.context_window * self.slots
        params.n_batch = params.n_ubatch = BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = engine.threads
        params.cache_ram_mib = PROMPT_CACHE_MIB
        params.hostnames, params.port = ["127.0.0.1"], 0
        params.api_keys = [secrets.token_hex(16)]
        params.ui = params.endpoint_slots = False
        params.verbosity = -1
        return params

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Yields llama.cpp's deltas; it never cuts a character."""
        if self._server is None:
            raise EngineError("unavailable", "the engine is not running", retry_after_ms=1000)
        flow = self._flows[request_id] = Flow()
        self._submit(self._body(request), flow)
        try:
            async with aclosing(relay(flow, Answer(may_be_empty=True))) as events:
                async for event in events:
                    yield event
        finally:
            self._flows.pop(request_id, None)

    def _body(self, request: Generate) -> dict[str, Any]:
        body = chat_body(request)
        for message in body["messages"]:
            message["role"] = "system" if message["role"] == "developer" else message["role"]
        for name in request.extra:
            if name not in SAMPLING:
                del body[name]
        limit = min(request.max_tokens, self._model.context_window)  # beyond 2^31 - 1 it would be refused
        return {**body, "max_tokens": limit, "return_progress": True}

    def _submit(self, body: dict[str, Any], flow: Flow) -> None:
        running = self._pool.submit(self._run, body, flow)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def _run(self, body: dict[str, Any], flow: Flow) -> None:
        if flow.stopped:
            return
        try:
            self._server.handle_chat_completions(body, flow.put)
        except ValueError:
            flow.put(EngineError("bad_request", "llama.cpp refused the request"))
        except Exception as error:
            flow.put(EngineError("upstream", f"llama.cpp failed ({type(error).__name__})"))
        flow.end()

    async def abort(self, request_id: str) -> None:
        """Stops a generation; its slot is free after the step that is being computed."""
        if flow := self._flows.get(request_id):
            flow.stop()

    async def drain(self) -> None:
        """Waits until no thread generates."""
        while self._running:
            await asyncio.wait([asyncio.wrap_future(one) for one in set(self._running)])

    async def close(self) -> None:
        """Stops the generations, then the server, without holding up the loop."""
        for flow in list(self._flows.values()):
            flow.stop()
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._pool.shutdown(wait=True)
        self._server = None
