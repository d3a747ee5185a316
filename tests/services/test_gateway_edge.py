"""What surrounds a chat at the HTTP edge: keys, models, embeddings, health, and the port."""

import asyncio
import base64
import json
import logging
import re
import shutil
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest
import pytest_asyncio
from scripted_edge import HELLO, Edge, chatters, edge, eventually

import hasten.gateway
from hasten.bus import Bus
from hasten.gateway.service import build
from hasten.gateway.settings import Settings
from hasten.keys import create, revoke
from hasten.nats_server import NatsServer
from hasten.settings import SettingsError

CHAT_PATH = "/v1/chat/completions"
SECRET = "My IBAN is NO00 1234 5678 901"


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus, max_body_bytes=100_000) as made:
        yield made


async def test_no_key_and_a_wrong_key_are_401_and_are_not_repeated(made: Edge) -> None:
    given = ["", "Bearer", "Bearer sk-expired-1234567890", f"Basic {made.key}", f"Bearer {made.key}x", made.key]
    for value in given:
        for method, path in (("POST", CHAT_PATH), ("POST", "/v1/embeddings"), ("GET", "/v1/models")):
            response = await made.http.request(method, path, json=HELLO, headers={"Authorization": value})
            everything = response.text + str(response.headers)
            assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
            assert "expired" not in everything
            assert made.key[3:9] not in everything
    assert made.heard == []


async def test_a_key_works_from_its_making_to_its_revocation(made: Edge, bus: Bus) -> None:
    key = await create(bus, "other", "second")
    headers = {"Authorization": f"Bearer {key}"}

    async def status() -> int:
        return (await made.http.post(CHAT_PATH, json=HELLO, headers=headers)).status_code

    async with asyncio.timeout(20):
        while await status() != 200:
            await asyncio.sleep(0.01)
        assert made.heard[-1][1].tenant == "other"
        await revoke(bus, key)
        while await status() != 401:
            await asyncio.sleep(0.01)
    assert (await made.post(HELLO)).status_code == 200


async def test_the_tenant_is_the_keys_whatever_else_is_said(made: Edge) -> None:
    for name in ("b", "a b", "*", "acme.b", ""):
        assert (await made.post(HELLO, **{"X-Tenant-Id": name})).status_code == 403
        assert (await made.post({**HELLO, "tenant_id": name})).status_code == 403
        assert (await made.http.get("/v1/models", headers={"X-Tenant-Id": name})).status_code == 403
    assert made.heard == []
    assert (await made.post({**HELLO, "tenant": "acme"}, **{"X-Tenant-Id": "acme"})).status_code == 200
    request, call = made.heard[0]
    assert (call.tenant, request.extra) == ("acme", {})


async def test_a_value_that_would_break_the_protocol_breaks_nothing(made: Edge) -> None:
    made.script = chatters
    async with made.http.stream("POST", CHAT_PATH, json={**HELLO, "stream": True}) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        response = await made.post({**HELLO, "model": "m\r\nPUB evil 1\r\nx", "tenant_id": "a\r\nb"})
        assert response.status_code == 403
        for _ in range(10):
            await anext(lines)


async def test_a_full_gateway_says_so_at_once(bus: Bus) -> None:
    async with edge(bus, max_requests=1) as made:
        made.script = chatters
        async with made.http.stream("POST", CHAT_PATH, json={**HELLO, "stream": True}) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            refused = await made.post(HELLO)
            assert (await made.http.get("/healthz")).status_code == 200
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        assert refused.headers["retry-after"] == "1"


async def test_unknown_paths_and_methods_have_the_same_shape(made: Edge) -> None:
    missing, wrong = await made.http.get("/v1/nothing"), await made.http.get(CHAT_PATH)
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


async def test_the_official_client_lists_models(made: Edge) -> None:
    async with made.openai() as client:
        names = [model.id async for model in await client.models.list()]
        assert names == ["auto", "meta/Small-8B", "fast", "big"]
        for name in names:
            assert (await client.models.retrieve(name)).id == name
        with pytest.raises(openai.NotFoundError) as raised:
            await client.models.retrieve("none")
    assert raised.value.code == "model_not_found"


async def test_the_official_client_embeds(made: Edge) -> None:
    texts = [f"text {'x' * number}" for number in range(70)]
    async with made.openai() as client:
        plain = await client.embeddings.create(model="auto", input=texts, encoding_format="float")
        packed = await client.embeddings.create(model="scripted-2d", input=texts)
        one = await client.embeddings.create(model="org/scripted-2d", input="three words here")
    assert [row.index for row in plain.data] == list(range(70))
    assert [row.embedding for row in plain.data] == [row.embedding for row in packed.data]
    assert [row.embedding[0] for row in plain.data] == [float(len(text)) for text in texts]
    assert (plain.model, plain.usage.prompt_tokens, plain.usage.total_tokens) == ("org/scripted-2d", 139, 139)
    assert one.usage.prompt_tokens == 3


async def test_embeddings_are_base64_of_float32_when_asked_for(made: Edge) -> None:
    body = {"model": "auto", "input": ["abc", "y" * 1001], "encoding_format": "base64"}
    first, second = (await made.http.post("/v1/embeddings", json=body)).json()["data"]
    assert struct.unpack("<2f", base64.b64decode(first["embedding"])) == (3.0, 0.0)
    assert "truncated" not in first
    assert second["truncated"] is True


async def test_embeddings_that_cannot_be_made_are_refused(made: Edge) -> None:
    faults: list[tuple[dict[str, object], int, str]] = [
        ({"input": [1, 2, 3]}, 400, "input"),
        ({"input": [[1, 2]]}, 400, "input"),
        ({"input": []}, 400, "input"),
        ({"input": ""}, 400, "input"),
        ({"input": ["a", ""]}, 400, "input"),
        ({"input": ["a"] * 2049}, 400, "input"),
        ({}, 400, "input"),
        ({"input": "a", "encoding_format": "hex"}, 400, "encoding_format"),
        ({"input": "a", "dimensions": 3}, 400, "dimensions"),
        ({"input": "a", "model": "text-embedding-3-small"}, 404, "model"),
    ]
    for body, status, param in faults:
        response = await made.http.post("/v1/embeddings", json=body)
        assert (response.status_code, response.json()["error"]["param"]) == (status, param), body
    forbidden = await made.http.post("/v1/embeddings", json={"input": "a", "tenant_id": "b"})
    assert forbidden.status_code == 403


async def test_ready_means_that_nats_and_an_orchestrator_are_there(bus: Bus, nats_server: NatsServer) -> None:
    async with edge(bus) as made:
        ready = await made.http.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})
        await made.orchestrator.drain()
        alone = await made.http.get("/readyz")
        assert (alone.status_code, alone.json()["reasons"]) == (503, ["no orchestrator is running"])
        assert (await made.post(HELLO)).status_code == 503
        await nats_server.stop(kill=True)
        await eventually(lambda: not bus.connected)
        cut_off = await made.http.get("/readyz")
        assert (cut_off.status_code, cut_off.json()["reasons"]) == (503, ["NATS cannot be reached"])
        assert (await made.http.get("/healthz")).status_code == 200


async def test_metrics_count_responses_and_hold_nothing_of_a_request(
    made: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    broken = json.dumps({**HELLO, "messages": [{"role": "user", "content": SECRET}]}).encode()[:-1]
    answers = [await made.http.post(CHAT_PATH, content=broken)]
    answers.append(await made.post({**HELLO, "messages": [{"role": SECRET, "content": SECRET}], "n": SECRET}))
    answers.append(await made.http.get(f"/{SECRET}"))
    metrics = (await made.http.get("/metrics")).text
    assert f'hasten_gateway_responses_total{{path="{CHAT_PATH}",status="400"}}' in metrics
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    for text in (*(answer.text for answer in answers), metrics, *ours):
        assert "IBAN" not in text
        assert made.key not in text


async def test_a_port_in_use_is_one_sentence(bus: Bus) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        gateway = build(Settings(http=f"127.0.0.1:{port}"), bus)
        with pytest.raises(SettingsError, match=f"port {port} on 127.0.0.1 is in use"):
            await gateway.start()
        await gateway.close()


@pytest.mark.parametrize("http", ["8080", "127.0.0.1:", "127.0.0.1:99999", "no-such-host.invalid:0"])
async def test_an_address_that_is_none_is_one_sentence(bus: Bus, http: str) -> None:
    with pytest.raises(SettingsError, match="http"):
        await build(Settings(http=http), bus).start()


async def test_the_examples_of_the_readme_run(
    made: Edge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(hasten.gateway.__file__).parent / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    monkeypatch.setenv("HASTEN_URL", made.gateway.url)
    monkeypatch.setenv("HASTEN_API_KEY", made.key)
    await asyncio.to_thread(exec, f"{example}\nclient.close()", {})
    assert capsys.readouterr().out == "Glomma and Drava"
    assert made.heard[0][0].knowledge == ["help"]
    if shutil.which("curl"):
        process = await asyncio.create_subprocess_shell(command, stdout=-1, stderr=-1)
        said, _ = await process.communicate()
        assert said.endswith(b"data: [DONE]\n\n")


async def test_the_gateway_is_seen_by_service_discovery(made: Edge, bus: Bus) -> None:
    answer = await bus.client.request("$SRV.PING.gateway", b"", timeout=10)
    assert json.loads(answer.data)["name"] == "gateway"
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{made.gateway.report()['http']}/healthz")).text == "ok\n"
