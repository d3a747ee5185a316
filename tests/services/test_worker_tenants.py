"""A worker with the embedded engine on a real NATS server: who is told that a prompt was seen before."""

from pathlib import Path

from worker_rig import ask

from hasten.bus import Bus
from hasten.messages.chat import Done, Turn
from hasten.messages.generate import Generate
from hasten.models import SMALL, EngineConfig, Model
from hasten.weights import prepare
from hasten.worker.service import build
from hasten.worker.settings import Settings

DATA = Path(__file__).parents[2] / ".hasten"
SECRET = "Summarise what is known of the merger with Oskar AS, planned for the spring and not announced yet. " * 6


async def test_another_tenant_cannot_tell_that_a_prompt_was_seen(bus: Bus) -> None:
    prepare(DATA, lambda line: None)
    engine = EngineConfig(kind="llama", path=SMALL.engine.path, slots=1)
    model = Model(name="m", slug="sim-one", engine=engine, context_window=512)
    worker = build(Settings(worker="w1", data=str(DATA)), bus, [model])
    await worker.start()
    try:
        request = Generate(messages=[Turn(role="user", content=SECRET)], max_tokens=1, temperature=0.0)
        cached = []
        for tenant in ("acme", "acme", "rival", "rival", "acme"):
            *_, done = await ask(bus, request, ms=600_000, tenant=tenant)
            assert isinstance(done, Done)
            cached.append(done.usage.cached_tokens)
    finally:
        await worker.close()
    first, again, other, other_again, back = cached
    assert (first, other, back) == (0, 0, 0)
    assert again == other_again > 100
