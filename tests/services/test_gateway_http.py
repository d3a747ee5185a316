"""HTTP as clients speak it: methods, paths, encodings, and pages of other origins."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from scripted_edge import HELLO, Edge, edge

from hasten.bus import Bus

PATH = "/v1/chat/completions"
PAGE = "https://app.example"


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus) as made:
        yield made


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
async def test_a_wrong_method_is_told_the_right_one(made: Edge, method: str) -> None:
    response = await made.http.request(method, PATH)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_slashes_too_many_are_no_other_path(made: Edge) -> None:
    for path in (f"{PATH}/", "/v1//chat/completions", "//v1/chat/completions//"):
        assert (await made.http.post(made.gateway.url + path, json=HELLO)).status_code == 200
    assert (await made.http.get("/v1/models/")).json()["object"] == "list"
    assert (await made.http.get("/v1//models/meta/Small-8B")).json()["id"] == "meta/Small-8B"


async def test_a_compressed_body_is_refused_as_such(made: Edge) -> None:
    raw = gzip.compress(json.dumps(HELLO).encode())
    for path in (PATH, "/v1/responses", "/v1/embeddings"):
        response = await made.http.post(path, content=raw, headers={"Content-Encoding": "gzip"})
        assert (response.status_code, response.json()["error"]["code"]) == (415, "unsupported_media_type")
    plain = await made.http.post(PATH, json=HELLO, headers={"Content-Encoding": "identity"})
    assert plain.status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"])
async def test_json_is_json_whatever_it_is_called(made: Edge, kind: str) -> None:
    response = await made.http.post(PATH, content=json.dumps(HELLO), headers={"Content-Type": kind})
    assert response.status_code == 200


async def test_a_byte_order_mark_is_no_part_of_the_body(made: Edge) -> None:
    assert (await made.http.post(PATH, content=b"\xef\xbb\xbf" + json.dumps(HELLO).encode())).status_code == 200


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "9" * 400, "-1", "1e3"])
async def test_a_number_that_is_none_is_refused(made: Edge, value: str) -> None:
    raw = json.dumps({**HELLO, "max_tokens": 0}).replace('"max_tokens": 0', f'"max_tokens": {value}')
    assert (await made.http.post(PATH, content=raw)).status_code == 400
    assert made.heard == []


async def test_of_a_key_that_is_there_twice_the_last_counts_everywhere(made: Edge) -> None:
    raw = json.dumps(HELLO)[:-1] + ', "max_tokens": 1, "max_tokens": 3}'
    assert (await made.http.post(PATH, content=raw)).status_code == 200
    assert made.heard[0][0].max_tokens == 3


def asked(origin: str) -> dict[str, str]:
    """What a browser asks before it sends a request with a key from a page."""
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    return {"Origin": origin, **wanted}


async def test_a_page_of_another_origin_may_ask_only_where_an_operator_says_so(bus: Bus, made: Edge) -> None:
    refused = await made.http.options(PATH, headers=asked(PAGE))
    answered = await made.http.post(PATH, json=HELLO, headers={"Origin": PAGE})
    assert refused.status_code == 405
    assert not any(name.startswith("access-control") for name in (*refused.headers, *answered.headers))


async def test_a_page_that_is_named_may_ask_and_read_everything(bus: Bus) -> None:
    options: dict[str, Any] = {"cors_origins": [PAGE]}
    async with edge(bus, **options) as made:
        allowed = await made.http.options(PATH, headers=asked(PAGE))
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
        assert {"GET", "POST", "DELETE"} <= set(allowed.headers["access-control-allow-methods"].split(", "))
        assert "authorization" in allowed.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in allowed.headers
        bodies: list[dict[str, Any]] = [HELLO, {**HELLO, "stream": True}, {"messages": []}]
        for body in bodies:
            answer = await made.http.post(PATH, json=body, headers={"Origin": PAGE})
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert answer.headers["access-control-expose-headers"] == "*"
        assert (await made.http.options(PATH, headers=asked("https://other.example"))).status_code == 400
