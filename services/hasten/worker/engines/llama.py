"""llama.cpp in this process, through xllamacpp: its threads compute, and the event loop only hears of it."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec

from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.settings import SettingsError
from hasten.telemetry import logger
from hasten.weights import FETCH, WeightsMissing, folder, requantized
from hasten.worker.engines import form
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.body import alternatives, chat_body, check_options
from hasten.worker.engines.engine import Delta, End, EngineError, tenant_of
from hasten.worker.engines.flow import Flow, relay
from hasten.worker.engines.forced import Reader, as_calls, forced, insists, reader
from hasten.worker.engines.slots import Hold, Slots

log = logger("worker")
TILE = 64
"""llama.cpp's flash attention takes so many rows at once: with smaller steps it computes prompts a tenth slower than
plain attention, with these a tenth faster."""
NGRAM = 4
"""So many tokens must have been said before for what followed them to be guessed again."""
_TYPES = {"f16": "GGML_TYPE_F16", "q8_0": "GGML_TYPE_Q8_0", "q4_0": "GGML_TYPE_Q4_0"}
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
        "parallel_tool_calls",
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
    """A GGUF model with as many slots as the row says, each with a whole context window and its own prefix cache.

    llama.cpp's store for prompts that have lost their slot stays off: it is one for all tenants. So do the ways to
    guess tokens that learn across requests.
    """

    continues = True

    def __init__(self, model: Model, path: Path, draft: Path | None = None) -> None:
        self._model, self._path, self._draft = model, path, draft
        self._config = model.engine
        self.slots = model.engine.slots
        self.capabilities = sorted({"json", "logprobs"} | ({"tools"} & set(model.capabilities)))
        self._server: Any = None
        self._key = secrets.token_hex(16)
        self._pool = ThreadPoolExecutor(2 * self.slots, thread_name_prefix="llama")
        self._places = Slots(self.slots)
        self._flows: dict[str, Flow] = {}
        self._running: set[Future[None]] = set()

    @classmethod
    def from_config(cls, model: Model, data: Path) -> Self:
        """An engine for the file `path` in the data folder's models/ (or an absolute path)."""
        if not model.engine.path:
            raise SettingsError(f"the model {model.name} needs a path to a GGUF file")
        if (model.engine.llama_speculative == "draft") != bool(model.engine.llama_draft):
            raise SettingsError(
                f'the model {model.name} needs both llama_speculative = "draft" and llama_draft, a GGUF file'
            )
        models, draft = folder(data), model.engine.llama_draft
        return cls(model, models / model.engine.path, models / draft if draft else None)

    async def start(self) -> None:
        """Loads the file, about half a second; ten seconds more where it is made in another precision first.

        Raises WeightsMissing, ImportError or SettingsError in one sentence.
        """
        await asyncio.get_running_loop().run_in_executor(self._pool, self._load)

    def _load(self) -> None:
        for path in (self._path, self._draft):
            if path is not None and not path.is_file():
                raise WeightsMissing(f"the model file {path} is missing: {FETCH}")
        try:
            import xllamacpp
        except ImportError:
            raise ImportError("the engine llama needs `pip install 'hasten[embedded]'`") from None
        path = requantized(self._path, self._config.llama_quantization, log.info)
        try:
            server = xllamacpp.Server(self._params(xllamacpp, path))
        except RuntimeError:
            raise SettingsError(f"llama.cpp cannot load {path}") from None
        self._warm_up(server)
        self._check_promises(server)
        self._server = server

    def _warm_up(self, server: Any) -> None:
        """Generates a token: a server freed before its loop runs waits for it for ever, and holds Python's lock."""
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        with suppress(Exception):
            server.handle_chat_completions(body, lambda _: False)

    def _check_promises(self, server: Any) -> None:
        """A slot has no more tokens than the model was trained for, whatever it was asked to have; and tools that its
        template does not know would be left out in silence."""
        headers = {"Authorization": f"Bearer {self._key}"}
        with httpx.Client(trust_env=False, timeout=60, headers=headers) as client:
            props = client.get(f"{server.listening_address}/props").json()
        if (most := props["default_generation_settings"]["n_ctx"]) < self._model.context_window:
            raise SettingsError(f"the model {self._model.name} can have a context_window of {most} tokens at most")
        if "tools" in self.capabilities and not props["chat_template_caps"]["supports_tools"]:
            log.warning("the template of %s has no place for tools: they are refused", self._model.name)
            self.capabilities.remove("tools")

    def _params(self, xllamacpp: Any, path: Path) -> Any:
        engine, params = self._config, xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_parallel = self.slots
        params.n_ctx = self._model.context_window * self.slots
        params.n_batch = params.n_ubatch = engine.llama_batch
        params.cont_batching = engine.llama_continuous_batching
        params.cpuparams.n_threads = engine.threads
        params.cpuparams_batch.n_threads = engine.llama_prefill_threads or engine.threads
        params.cache_type_k = params.cache_type_v = getattr(xllamacpp.ggml_type, _TYPES[engine.llama_cache_type])
        if engine.llama_batch < TILE and engine.llama_cache_type == "f16":
            params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._speculate(xllamacpp, params.speculative)
        params.cache_ram_mib = 0
        params.hostnames, params.port = ["127.0.0.1"], 0
        params.api_keys = [self._key]
        params.ui = params.endpoint_slots = False
        params.verbosity = -1
        return params

    def _speculate(self, xllamacpp: Any, speculative: Any) -> None:
        engine, kinds = self._config, xllamacpp.common_speculative_type
        if engine.llama_speculative == "ngram":
            speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
            speculative.ngram_simple.size_n = NGRAM
            speculative.ngram_simple.size_m = engine.llama_draft_tokens
        elif engine.llama_speculative == "draft":
            speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
            speculative.draft.mparams.path = str(self._draft)
            speculative.draft.n_max = engine.llama_draft_tokens
            for threads in (speculative.draft.cpuparams, speculative.draft.cpuparams_batch):
                threads.n_threads = engine.threads

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Yields llama.cpp's deltas; it never cuts a character."""
        if self._server is None:
            raise EngineError("unavailable", "the engine is not running", retry_after_ms=1000)
        body, flow = self._body(request), Flow()
        self._flows[request_id] = flow
        self._submit(tenant_of(request_id), body, flow, reader(request) if insists(request) else None)
        try:
            async with aclosing(relay(flow, Answer(may_be_empty=True, alternatives=alternatives(request)))) as events:
                async for event in events:
                    yield event
        finally:
            self._flows.pop(request_id, None)

    def _body(self, request: Generate) -> dict[str, Any]:
        form.check(request)
        check_options(request, SAMPLING)
        if request.logprobs and request.tools:
            raise EngineError("unsupported", "this model tells no log-probabilities beside tools", param="logprobs")
        body = chat_body(msgspec.structs.replace(request, confidence_after=0) if request.tools else request)
        if insists(request):  # llama.cpp takes the choice, and answers with text
            del body["tool_choice"]
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": forced(request)}}
        for message in body["messages"]:
            message["role"] = "system" if message["role"] == "developer" else message["role"]
        for name in request.extra:
            if name not in SAMPLING:
                del body[name]
        limit = min(request.max_tokens, self._model.context_window)  # beyond 2^31 - 1 it would be refused
        return {**body, "max_tokens": limit, "return_progress": True}

    def _submit(self, tenant: str, body: dict[str, Any], flow: Flow, calls: Reader | None) -> None:
        running = self._pool.submit(self._run, tenant, body, flow, calls)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def _run(self, tenant: str, body: dict[str, Any], flow: Flow, calls: Reader | None) -> None:
        with self._places.hold(tenant, _prompt(body)) as held:
            if not flow.stopped:
                self._compute(body, flow, held, calls)
        flow.end()

    def _compute(self, body: dict[str, Any], flow: Flow, held: Hold, calls: Reader | None) -> None:
        def put(plain: Any) -> bool:
            if "error" not in plain:
                held.began()
            return flow.put(plain if calls is None else as_calls(plain, calls))

        place = {"id_slot": held.at, "cache_prompt": held.reuses and self._config.llama_prefix_cache}
        try:
            self._server.handle_chat_completions({**body, **place}, put)
        except ValueError:
            flow.put(EngineError("bad_request", "llama.cpp refused the request"))
        except RecursionError:
            flow.put(EngineError("bad_request", "the request is nested too deeply"))
        except Exception as error:
            flow.put(EngineError("upstream", f"llama.cpp failed ({type(error).__name__})"))

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


def _prompt(body: dict[str, Any]) -> bytes:
    """What is computed first, in order: the tools, then the turns."""
    return b"".join(map(msgspec.json.encode, [body.get("tools", ""), *body["messages"]]))
