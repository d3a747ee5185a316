"""What people ask stays out of everything an operator reads, at the most talkative level and when things go wrong."""

from pathlib import Path

import httpx
import pytest
from up_rig import hasten

from hasten.address import nats_url
from hasten.client import Hasten
from hasten.messages.cache import CACHE_LOOKUP
from hasten.messages.change import CHANGE
from hasten.messages.chat import CHAT
from hasten.messages.failure import Failed

pytestmark = pytest.mark.timeout(300)
SECRET = "NO00 1234 5678 901"


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_no_prompt_is_in_the_log_nor_in_the_metrics(data: Path, level: str) -> None:
    up = await hasten("up", "--engine", "sim", "--http", "127.0.0.1:0", data=data, HASTEN_LOG=level)
    http, _ = await up.ready()
    prompt = f"My IBAN is {SECRET}, is that a valid one?"
    async with Hasten.connect(nats_url(data=data)) as client:
        await client.ask(prompt)
        await client.ask(prompt, knowledge=["help"])
        with pytest.raises(Failed):
            await client.ask(prompt, response_format={"type": "regex", "pattern": SECRET})
        raw = client.bus.client
        broken = [f'{{"messages": "{SECRET}"', f'{{"messages": [{{"role": "{SECRET}"}}]}}', f'["{SECRET}"]', SECRET]
        for subject in (CHAT.subject(tenant="demo"), CACHE_LOOKUP.subject(tenant="demo")):
            for body in broken:
                await raw.request(subject, body.encode(), timeout=10)
        for body in broken:
            await client.bus.js.publish(CHANGE.subject(source="iban"), body.encode())
        async with httpx.AsyncClient(base_url=http) as web:
            key = (data / "demo.key").read_text().strip()
            for body in broken:
                reply = await web.post(
                    "/v1/chat/completions", content=body.encode(), headers={"Authorization": f"Bearer {key}"}
                )
                assert reply.status_code == 400
            metrics = (await web.get("/metrics")).text
    up.process.terminate()
    code, out, log = await up.ended()
    assert (code, out) == (0, "")
    assert "cache is ready" in log
    assert key not in metrics
    for seen in (log, metrics):
        assert "IBAN" not in seen
        assert SECRET not in seen
