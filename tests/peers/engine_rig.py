"""One engine of each kind for the conformance suite: how it is set up, and how it is made to break.

Which kinds there are is in HASTEN_TEST_ENGINES; vLLM in process has an environment of its own (`make test-vllm`).
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from model_server import ModelServer, llama, vllm

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import SMALL, EngineConfig, Model
from hasten.weights import folder, prepare
from hasten.worker.domain import check
from hasten.worker.engines import Delta, End, Engine, EngineError, engine_class

DATA = Path(__file__).parents[2] / ".hasten"
KINDS = os.environ.get("HASTEN_TEST_ENGINES", "sim,llama,openai").split(",")
CHECKPOINT = os.environ.get("HASTEN_TEST_CHECKPOINT", "")
"""The folder that `checkpoint.py` has made, for vLLM."""
SLOTS, WINDOW = 2, 4096
PATIENCE_S = 100.0
"""Longer than anything takes that ends at all, a start of vLLM on a busy machine aside."""
COLOURS = "Name three colours of the rainbow."
ENDLESS: dict[str, Any] = {"max_tokens": 3600, "extra": {"ignore_eos": True}}
"""Half a minute at least with the engines that have a model, and an hour with the slow simulator."""
BAD_GRAMMAR = "root ::= ("


class Kind:
    """A kind of engine: `make()` gives one that has not been started, with what the caller sets otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.server: ModelServer | None = None
        self.path = folder(DATA) / SMALL.engine.path

    def model(self, **options: Any) -> Model:
        """Its row of the table."""
        engine = EngineConfig(**{"kind": self.engine, "slots": SLOTS, **self._options(), **options})
        able = {
            "sim": [],
            "llama": ["json"],
            "openai": ["json", "logprobs"],
            "vllm": ["json", "tools"],
            "served": ["json", "tools", "logprobs"],
        }
        return Model(name=self.name, slug=self.name, engine=engine, context_window=WINDOW, capabilities=able[self.name])

    @property
    def engine(self) -> str:
        """The kind that the table names: `served` is vLLM behind its server."""
        return "openai" if self.name == "served" else self.name

    @property
    def server_command(self) -> list[str]:
        """What starts the server, without its port; nothing where there is none."""
        if self.name == "openai":
            return llama(str(self.path), SLOTS, WINDOW)
        return vllm(CHECKPOINT, SLOTS, WINDOW) if self.name == "served" else []

    def _options(self) -> dict[str, Any]:
        match self.name:
            case "sim":
                return {"sim_decode_per_s": 200, "sim_prefill_per_s": 5000}
            case "llama":
                return {"path": str(self.path)}
            case "openai" | "served":
                assert self.server is not None
                return {"url": self.server.url, "upstream_model": "m", "continues": True}
        options = {"vllm_dtype": "float32", "vllm_eager": True, "vllm_kv_gib": 1.0, "vllm_tool_parser": "hermes"}
        return {"path": CHECKPOINT, **options}

    def make(self, **options: Any) -> Engine:
        """An engine that has not been started."""
        return engine_class(self.engine).from_config(self.model(**options), DATA)

    @property
    def grammar(self) -> dict[str, Any]:
        """The options of a request whose grammar is none."""
        return {"structured_outputs": {"grammar": BAD_GRAMMAR}} if self.is_vllm else {"grammar": BAD_GRAMMAR}

    @property
    def is_vllm(self) -> bool:
        """Whether vLLM's own options are understood."""
        return self.name in ("vllm", "served")


def vllm_process() -> psutil.Process:
    """The process in which the vLLM that was started last computes."""
    found = [one for one in psutil.Process().children(recursive=True) if "EngineCor" in one.name()]
    return max(found, key=lambda one: one.create_time())


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=KINDS)
async def kind(request: pytest.FixtureRequest) -> AsyncIterator[Kind]:
    """A kind of engine, with a real server in a process of its own where it needs one."""
    found = Kind(request.param)
    if not found.is_vllm:
        prepare(DATA, lambda line: None)
    if found.server_command:
        found.server = await ModelServer(found.server_command).start()
    yield found
    if found.server is not None:
        await found.server.kill()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine(kind: Kind) -> AsyncIterator[Engine]:
    """An engine that has been started, the same for all tests of its kind: each must leave it well."""
    made = kind.make()
    await made.start()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def slow(kind: Kind, engine: Engine) -> AsyncIterator[Engine]:
    """One whose generations last: the simulator at a word in ten seconds, the others as they are."""
    if kind.name != "sim":
        yield engine
        return
    made = kind.make(sim_decode_per_s=0.1, sim_prefill_per_s=1000)
    await made.start()
    yield made
    await made.close()


def asked(text: str = COLOURS, **options: Any) -> Generate:
    """A request, greedy and short unless it is said otherwise."""
    options = {"max_tokens": 12, "temperature": 0.0, **options}
    return Generate(messages=[Turn(role="user", content=text)], **options)


async def whole(events: AsyncGenerator[Delta | End]) -> tuple[list[Delta], End]:
    """The deltas and the end, which must be the last and only one."""
    seen = [event async for event in events]
    deltas = [event for event in seen if isinstance(event, Delta)]
    (end,) = [event for event in seen if isinstance(event, End)]
    assert seen[-1] is end
    return deltas, end


async def text(engine: Engine, request: Generate, request_id: str = "acme/r") -> str:
    """The text of the whole answer."""
    deltas, _ = await whole(engine.generate(request_id, request))
    return "".join(delta.text for delta in deltas)


async def refused(engine: Engine, request: Generate) -> EngineError:
    """The error that the generation ends with."""
    with pytest.raises(EngineError) as caught:
        await text(engine, request)
    return caught.value


def admitted(engine: Engine, request: Generate) -> Generate:
    """The request, once it has passed the check of a worker with this engine; raises Failed."""
    check(request, engine.capabilities, engine.continues)
    return request
