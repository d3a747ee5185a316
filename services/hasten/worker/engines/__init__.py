"""The engines by their kind: `llama` in process, `openai` for any compatible server, `sim` for the simulator,
`vllm` in process.

A package of a third party adds a kind in its entry-point group `hasten.engines`. One is imported only when a row of the
model table asks for it.
"""

from importlib import import_module
from importlib.metadata import entry_points

from hasten.settings import SettingsError
from hasten.worker.engines.engine import Delta, End, Engine, EngineError

GROUP = "hasten.engines"
KINDS = {
    "llama": "hasten.worker.engines.llama:LlamaEngine",
    "openai": "hasten.worker.engines.openai:OpenAIEngine",
    "sim": "hasten.worker.engines.sim:SimEngine",
    "vllm": "hasten.worker.engines.vllm:VLLMEngine",
}


def engine_class(kind: str) -> type[Engine]:
    """The class that runs this kind of engine; raises SettingsError naming the kinds that there are."""
    others = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    place = (others | KINDS).get(kind)
    if place is None:
        raise SettingsError(f"there is no engine {kind!r}; there are {', '.join(sorted(others | KINDS))}")
    module, _, name = place.partition(":")
    found: type[Engine] = getattr(import_module(module), name)
    return found


__all__ = ["GROUP", "KINDS", "Delta", "End", "Engine", "EngineError", "engine_class"]
