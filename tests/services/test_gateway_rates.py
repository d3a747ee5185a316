"""Rates and budgets at the HTTP edge, which hold over all gateways together."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from rates_rig import unhurried
from scripted_edge import HELLO, USAGE, Edge, edge, eventually, say

from hasten.bus import Bus
from hasten.caller import Limits
from hasten.gateway.service import Gateway, build
from hasten.gateway.settings import Settings
from hasten.keys import create, limit_tenant, revoke
from hasten.messages.chat import ChatRequest, Chunk, Note
from hasten.nats_server import NatsServer
from hasten.service import Call

__all__ = ["unhurried"]
pytestmark = pytest.mark.usefixtures("unhurried")
CHAT = "/v1/chat/completions"


@contextlib.asynccontextmanager
async def second(server: NatsServer) -> AsyncIterator[Gateway]:
    """Another gateway, on a connection of its own."""
    bus = await Bus.connect(server.url)
    gateway = build(Settings(http="127.0.0.1:0"), bus)
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.close()
        await bus.close()


async def post(gateway: Gateway, key: str, body: dict[str, Any] = HELLO) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60, verify=False) as http:
        return await http.post(CHAT, json=body, headers={"Authorization": f"Bearer {key}"})


def still(*gateways: Gateway) -> None:
    """Stops the clocks by which limits drain: what a test asserts does not depend on how long it takes."""
    now_ms = time.time() * 1000
    for gateway in gateways:
        gateway._rates._clock = lambda: now_ms


async def known(made: Edge, key: str) -> None:
    """Returns when the gateway knows a key; from then on nothing drains."""
    still(made.gateway)
    async with asyncio.timeout(20):
        while (await made.http.get("/v1/models", headers={"Authorization": f"Bearer {key}"})).status_code != 200:
            await asyncio.sleep(0.01)


def told(response: httpx.Response) -> dict[str, str]:
    return {
        name.removeprefix("x-ratelimit-"): value
        for name, value in response.headers.items()
        if name.startswith("x-ratelimit-")
    }


async def test_a_caller_without_limits_is_told_of_none(bus: Bus) -> None:
    async with edge(bus) as made:
        assert told(await made.post(HELLO)) == {}


async def test_a_key_is_refused_when_its_minute_is_used_up_and_is_told_all_along(bus: Bus) -> None:
    async with edge(bus) as made:
        key = await create(bus, "acme", limits=Limits(requests_per_minute=3, tokens_per_minute=100_000))
        await known(made, key)
        answers = [await post(made.gateway, key) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [told(answer)["remaining-requests"] for answer in answers] == ["2", "1", "0", "0"]
        for answer in answers:
            assert (told(answer)["limit-requests"], told(answer)["limit-tokens"]) == ("3", "100000")
            assert told(answer)["reset-requests"].endswith("s")
        error = answers[-1].json()["error"]
        assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
        assert 0 < int(answers[-1].headers["retry-after"]) <= 20
        assert len(made.heard) == 3
        assert (await made.post(HELLO)).status_code == 200, "another key of the tenant"


async def test_openais_client_sees_its_own_errors(bus: Bus) -> None:
    async with edge(bus) as made:
        made.script = costly
        slow = await create(bus, "acme", limits=Limits(requests_per_minute=1))
        poor = await create(bus, "acme", limits=Limits(budget_usd=0.5))
        await known(made, poor)
        for key, code in ((slow, "rate_limit_exceeded"), (poor, "insufficient_quota")):
            client = openai.AsyncOpenAI(base_url=f"{made.gateway.url}/v1", api_key=key, max_retries=0)
            await client.chat.completions.create(model="auto", messages=[{"role": "user", "content": "x"}])
            with pytest.raises(openai.RateLimitError) as refused:
                await client.chat.completions.create(model="auto", messages=[{"role": "user", "content": "x"}])
            assert refused.value.code == code
            await client.close()


async def costly(_: ChatRequest, call: Call) -> None:
    """An answer by `big`, which costs a dollar for 1,000 tokens of a prompt in the scripted table."""
    await call.send(Note(kind="route", data={"model": "big"}))
    await say(call, "Glomma", usage=USAGE.__class__(prompt_tokens=1000, completion_tokens=0), model="big")


async def from_cache(_: ChatRequest, call: Call) -> None:
    await call.send(Note(kind="cache", data={"hit": "exact", "model": "big"}))
    await say(call, "Glomma", usage=USAGE.__class__(prompt_tokens=1000), model="big", cache="exact")


async def test_a_budget_is_charged_what_answers_cost_and_hits_cost_nothing(bus: Bus) -> None:
    async with edge(bus) as made:
        made.script = from_cache
        key = await create(bus, "acme", limits=Limits(budget_usd=1.5, budget_per="day", tokens_per_minute=10_000))
        await known(made, key)
        for _ in range(5):
            assert (await post(made.gateway, key)).status_code == 200
        await eventually(lambda: all(account.idle for account in made.gateway._rates._accounts.values()))
        assert int(told(await post(made.gateway, key))["remaining-tokens"]) > 9900
        made.script = costly
        assert [(await post(made.gateway, key)).status_code for _ in range(3)] == [200, 200, 429]
        refused = await post(made.gateway, key)
        error = refused.json()["error"]
        assert (error["code"], error["type"]) == ("insufficient_quota", "insufficient_quota")
        assert refused.headers["x-should-retry"] == "false"
        assert 0 < int(refused.headers["retry-after"]) <= 86_400


async def test_who_leaves_early_pays_for_what_was_sent(bus: Bus) -> None:
    async def long(_: ChatRequest, call: Call) -> None:
        await call.send(Note(kind="route", data={"model": "big"}))
        await say_without_end(call)

    async with edge(bus) as made:
        made.script = long
        key = await create(bus, "acme", limits=Limits(budget_usd=0.5))
        await known(made, key)
        headers = {"Authorization": f"Bearer {key}"}
        async with made.http.stream("POST", CHAT, json={**HELLO, "stream": True}, headers=headers) as stream:
            lines = stream.aiter_lines()
            for _ in range(8):
                await anext(lines)
        await eventually(lambda: not made.gateway.report()["chats"])
        assert (await post(made.gateway, key)).json()["error"]["code"] == "insufficient_quota"


async def say_without_end(call: Call) -> None:
    for seq in range(100_000):
        await call.send(Chunk(seq=seq, text="x" * 1000))
        await asyncio.sleep(0.005)


async def test_a_request_that_can_never_fit_is_told_so(bus: Bus) -> None:
    async with edge(bus) as made:
        key = await create(bus, "acme", limits=Limits(tokens_per_minute=100))
        await known(made, key)
        refused = await post(made.gateway, key, {**HELLO, "max_tokens": 5000})
        assert refused.status_code == 429
        assert "never" in refused.json()["error"]["message"]
        assert (refused.headers["x-should-retry"], "retry-after" in refused.headers) == ("false", False)


async def test_what_is_refused_for_another_reason_uses_nothing_up(bus: Bus) -> None:
    async with edge(bus) as made:
        key = await create(bus, "acme", limits=Limits(requests_per_minute=2))
        await known(made, key)
        for _ in range(5):
            assert (await post(made.gateway, key, {"messages": []})).status_code == 400
        assert (await post(made.gateway, key)).status_code == 200


async def test_the_keys_of_a_tenant_share_its_limits_and_an_unknown_key_learns_nothing(bus: Bus) -> None:
    async with edge(bus) as made:
        await limit_tenant(bus, "acme", Limits(requests_per_minute=2))
        other = await create(bus, "acme", limits=Limits(requests_per_minute=50))
        await known(made, other)
        assert told(await post(made.gateway, other))["limit-requests"] == "2"
        assert (await made.post(HELLO)).status_code == 200
        refused = [await made.post(HELLO), await post(made.gateway, other)]
        assert [answer.status_code for answer in refused] == [429, 429]
        await revoke(bus, other)
        async with asyncio.timeout(20):
            while (gone := await post(made.gateway, other)).status_code != 401:
                await asyncio.sleep(0.01)
        never = await post(made.gateway, "hk-never")
        assert (gone.status_code, gone.content) == (never.status_code, never.content)
        assert set(gone.headers) == set(never.headers)
        assert told(gone) == {}


async def test_two_gateways_together_let_in_no_more_than_the_limit(bus: Bus, nats_server: NatsServer) -> None:
    async with edge(bus) as made, second(nats_server) as other:
        key = await create(bus, "acme", limits=Limits(requests_per_minute=8))
        await known(made, key)
        async with asyncio.timeout(20):
            while (await models(other, key)).status_code != 200:
                await asyncio.sleep(0.01)
        still(made.gateway, other)
        answers = await asyncio.gather(*(post(gateway, key) for gateway in (made.gateway, other) for _ in range(12)))
        assert sorted(answer.status_code for answer in answers) == [200] * 8 + [429] * 16


async def models(gateway: Gateway, key: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60, verify=False) as http:
        return await http.get("/v1/models", headers={"Authorization": f"Bearer {key}"})


async def test_no_field_of_another_api_gives_back_what_was_used_up(bus: Bus) -> None:
    async with edge(bus) as made:
        key = await create(bus, "acme", limits=Limits(tokens_per_minute=200))
        await known(made, key)
        assert (await post(made.gateway, key, {**HELLO, "max_tokens": 180})).status_code == 200
        await eventually(lambda: all(account.idle for account in made.gateway._rates._accounts.values()))
        body = {**HELLO, "max_tokens": 180, "max_output_tokens": -1_000_000}
        left = int(told(await post(made.gateway, key, {**body, "max_tokens": 300}))["remaining-tokens"])
        del body["max_tokens"]
        answer = await post(made.gateway, key, body)
        assert int(told(answer)["remaining-tokens"]) <= left
