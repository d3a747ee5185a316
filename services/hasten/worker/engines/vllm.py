"""vLLM in this process, through its AsyncLLM: on GPUs and, with its CPU build, without.

The model computes in a process that vLLM starts and ends; the event loop renders prompts and relays tokens.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Self

from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.settings import SettingsError
from hasten.weights import folder
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.engine import Delta, End, EngineError, tenant_of
from hasten.worker.engines.flow import Flow, relay
from hasten.worker.engines.vllm_output import Output
from hasten.worker.engines.vllm_request import chat, sampling
from hasten.worker.engines.vllm_tools import reader

ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""What is set unless the operator has set it: nothing is reported to anyone, and threads are not bound to cores, since
the loop of this process starves where they are."""
END_S = 15.0
"""How long vLLM's own process may take to end before it is killed; it gives those that it has started nine seconds."""


class VLLMEngine:
    """A checkpoint with as many sequences at once as the row has slots, in batches that vLLM makes anew at each step.

    The prefix cache is parted by tenant, so that nobody can measure what another has asked.
    """

    continues = True

    def __init__(self, model: Model, path: str) -> None:
        self._model, self._path = model, path
        self.slots = model.engine.slots
        tools = bool(model.engine.vllm_tool_parser) and "tools" in model.capabilities
        self.capabilities = ["json", "tools"] if tools else ["json"]
        self._loading: asyncio.Task[None] | None = None
        self._llm: Any = None
        self._ids = itertools.count()
        self._flows: dict[str, Flow] = {}
        self._running: set[asyncio.Task[None]] = set()

    @classmethod
    def from_config(cls, model: Model, data: Path) -> Self:
        """An engine for the checkpoint `path`: a folder in the data folder's models/, an absolute one, a hub's name."""
        path = model.engine.path
        if not path:
            raise SettingsError(f"the model {model.name} needs a path to a checkpoint, or its name on a hub")
        local = folder(data) / path
        if Path(path).is_absolute() and not local.is_dir():
            raise SettingsError(f"the model {model.name} has no checkpoint in {local}")
        return cls(model, str(local) if local.is_dir() else path)

    async def start(self) -> None:
        """Loads the checkpoint, some twenty seconds; raises ImportError or SettingsError in one sentence."""
        self._loading = asyncio.get_running_loop().create_task(asyncio.to_thread(self._load))
        await asyncio.shield(self._loading)
        await self._warm_up()

    def _load(self) -> None:
        """Not by its result: what a future holds outlives the loop, and vLLM's own clean-up fails then."""
        os.environ.setdefault("OMP_NUM_THREADS", str(self._model.engine.threads))
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            from vllm import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError:
            raise ImportError("the engine vllm needs `pip install 'hasten[vllm]'`") from None
        try:
            self._llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments()))
        except Exception as error:
            what = f"vLLM cannot load {self._path} ({type(error).__name__}); its own log says why"
            raise SettingsError(what) from None

    def _arguments(self) -> dict[str, Any]:
        engine = self._model.engine
        arguments: dict[str, Any] = {
            "model": self._path,
            "max_num_seqs": self.slots,
            "max_model_len": self._model.context_window,
            "dtype": engine.vllm_dtype,
            "enforce_eager": engine.vllm_eager,
            "enable_prefix_caching": engine.vllm_prefix_cache,
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
            "enable_log_requests": False,
        }
        if engine.vllm_kv_gib:
            arguments["kv_cache_memory_bytes"] = round(engine.vllm_kv_gib * 2**30)
        if engine.vllm_ngram_tokens:
            speculative = {"num_speculative_tokens": engine.vllm_ngram_tokens, "prompt_lookup_max": 4}
            arguments["speculative_config"] = {"method": "ngram", **speculative}
        return arguments | engine.vllm_options

    async def _warm_up(self) -> None:
        """Generates a little, so that the first caller does not wait for what vLLM only starts or compiles then."""
        request = Generate(messages=[], max_tokens=8, temperature=0.0, extra={"ignore_eos": True})
        async for _ in self._outputs([0] * 16, request, tenant=""):
            pass

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Yields vLLM's deltas; raises what vLLM raises when its process is gone."""
        if self._llm is None:
            raise EngineError("unavailable", "the engine is not running", retry_after_ms=1000)
        flow = self._flows[request_id] = Flow()
        running = asyncio.get_running_loop().create_task(self._run(request, tenant_of(request_id), flow))
        flow.on_stop = running.cancel
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        config = self._model.engine
        events = relay(flow, Answer(may_be_empty=True), config.first_token_timeout_s, config.between_tokens_timeout_s)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self._flows.pop(request_id, None)

    async def _run(self, request: Generate, tenant: str, flow: Flow) -> None:
        try:
            prompt = await asyncio.to_thread(self._prompt, request)
            read = reader(request, self._llm.get_tokenizer(), self._model.engine.vllm_tool_parser)
            output = Output(len(prompt), read)
            async for piece in self._outputs(prompt, request, tenant):
                for plain in output.take(piece):
                    flow.put(plain)
            flow.end()
        except Exception as error:
            flow.put(_meaning(error))

    def _prompt(self, request: Generate) -> list[int]:
        """The prompt in tokens, with the beginning of the answer as it is; raises EngineError(context_overflow)."""
        tokenizer, options = self._llm.get_tokenizer(), chat(request)
        text = tokenizer.apply_chat_template(tokenize=False, add_generation_prompt=True, **options) + request.continues
        tokens: list[int] = tokenizer.encode(text, add_special_tokens=False)
        if len(tokens) >= (window := self._model.context_window):
            raise EngineError("context_overflow", f"the prompt has {len(tokens)} tokens, the model takes {window}")
        return tokens

    async def _outputs(self, prompt: list[int], request: Generate, tenant: str) -> AsyncGenerator[Any]:
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        options = sampling(request, self._model.context_window - len(prompt))
        if form := options.pop("structured_outputs", None):
            options["structured_outputs"] = StructuredOutputsParams(**form)
        options = self._llm.model_config.get_diff_sampling_param() | options
        options.pop("max_new_tokens", None)
        given = TokensPrompt(prompt_token_ids=prompt, **({"cache_salt": tenant} if tenant else {}))
        parameters = SamplingParams(output_kind=RequestOutputKind.DELTA, **options)
        async with aclosing(self._llm.generate(given, parameters, str(next(self._ids)))) as outputs:
            async for output in outputs:
                yield output

    async def abort(self, request_id: str) -> None:
        """Stops a generation; vLLM drops it before its next step."""
        if flow := self._flows.get(request_id):
            flow.stop()

    async def drain(self) -> None:
        """Waits until nothing generates."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def close(self) -> None:
        """Stops the generations, then vLLM's process; one that is still loading is waited for, since it cannot be
        stopped half way."""
        for flow in list(self._flows.values()):
            flow.stop()
        await self.drain()
        loading, self._loading = self._loading, None
        if loading is not None:
            with suppress(Exception):
                await loading
        llm, self._llm = self._llm, None
        if llm is not None:
            with suppress(Exception):
                await asyncio.to_thread(llm.shutdown, timeout=END_S)


def _meaning(error: Exception) -> Exception:
    """What vLLM's error says of a generation; itself when it says that the engine is gone.

    Its text may quote the prompt and goes no further.
    """
    from jinja2 import TemplateError
    from vllm.exceptions import VLLMClientError
    from vllm.v1.engine.exceptions import EngineDeadError

    if isinstance(error, EngineError | EngineDeadError):
        return error
    if isinstance(error, VLLMClientError | TemplateError | ValueError | TypeError):
        param = getattr(error, "parameter", None)
        known = param if param in Generate.__struct_fields__ else None
        what = f" ({known})" if known else ""
        return EngineError("bad_request", f"vLLM refused the request{what}", param=known)
    return EngineError("upstream", f"vLLM failed ({type(error).__name__})", retry_after_ms=1000)
