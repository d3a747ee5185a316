"""What the web page stands on: its files and their policy, the live board, the names to choose, the invalidation."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from scripted_edge import Edge, edge, eventually

import hasten.gateway
from hasten.bus import Bus
from hasten.client import Hasten
from hasten.gateway.removal import wanted
from hasten.journal import ensure_stream
from hasten.keys import create, revoke
from hasten.messages.cache import INVALIDATE, INVALIDATED, Invalidate, Invalidated, Invalidation
from hasten.messages.chat import FINISHED, CacheSource, Finished
from hasten.messages.failure import Failed
from hasten.messages.generate import STATUS, Status
from hasten.messages.retrieve import Document
from hasten.service import Call, Service

FOLDER = Path(hasten.gateway.__file__).parent / "page"
FILES = sorted(path.name for path in FOLDER.iterdir())
MOST_BYTES = 60_000


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus, board_s=0.05, max_boards=3) as made:
        yield made


async def test_the_page_comes_without_a_key_and_may_load_nothing_from_elsewhere(made: Edge) -> None:
    async with httpx.AsyncClient() as stranger:
        page = await stranger.get(f"{made.gateway.url}/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert policy["frame-ancestors"] == "'none'"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


async def test_every_file_has_its_type_and_is_sent_once(made: Edge) -> None:
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for name in FILES:
        found = await made.http.get(f"/page/{name}")
        assert found.content == (FOLDER / name).read_bytes()
        assert found.headers["content-type"].split(";")[0] == kinds[name.rpartition(".")[2]]
        again = await made.http.get(f"/page/{name}", headers={"If-None-Match": f'"other", W/{found.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == found.headers["etag"]
        head = await made.http.head(f"/page/{name}")
        length = str(len(found.content))
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", length)


async def test_a_file_that_is_not_there(made: Edge) -> None:
    for path in ("/page/other.js", "/page/..%2fapp.py", "/page/", "/page/__init__.py", "/page/index.html/x"):
        found = await made.http.get(path)
        assert (found.status_code, found.json()["error"]["code"]) == (404, "not_found")


def test_the_page_is_small_and_names_no_other_host() -> None:
    texts = {name: (FOLDER / name).read_text() for name in FILES}
    assert sum(len(text.encode()) for text in texts.values()) < MOST_BYTES
    for name, text in texts.items():
        addresses = set(re.findall(r"https?://[^\"'\s>]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set(), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|localStorage.*key", text)


def test_every_module_and_style_that_is_named_is_there() -> None:
    for name in FILES:
        text = (FOLDER / name).read_text()
        named = re.findall(r'(?:from|import) "\./([^"]+)"', text) + re.findall(r'(?:src|href)="page/([^"]+)"', text)
        assert set(named) <= set(FILES), name


def finished(seq: int, cache: CacheSource) -> Finished:
    return Finished(source="o1", seq=seq, request_id=f"r{seq}", outcome="done", cache=cache, ttft_ms=12.0)


class Reader:
    """Reads a board, one event after the other."""

    def __init__(self, made: Edge, key: str) -> None:
        self._made, self._key = made, key

    async def __aenter__(self) -> "Reader":
        self._stream = self._made.http.stream("GET", "/v1/board", headers={"Authorization": f"Bearer {self._key}"})
        self.response = await self._stream.__aenter__()
        self._lines = self.response.aiter_lines()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    async def next(self) -> tuple[str, dict[str, Any]]:
        """The next event; raises StopAsyncIteration at the end of the stream."""
        name = (await anext(self._lines)).removeprefix("event: ")
        data: dict[str, Any] = msgspec.json.decode((await anext(self._lines)).removeprefix("data: "))
        await anext(self._lines)
        return name, data

    async def to_its_end(self) -> None:
        """Returns when the stream has ended."""
        async for _ in self._lines:
            pass

    async def until(self, requests: int) -> dict[str, Any]:
        """The first view that has counted so many requests."""
        async with asyncio.timeout(30):
            while True:
                name, view = await self.next()
                if name == "view" and view["figures"]["requests"] >= requests:
                    return view


async def happen(bus: Bus) -> None:
    """Three requests of acme, one of another tenant, an invalidation there, and a worker."""
    for seq, (tenant, cache) in enumerate(
        [("acme", "exact"), ("acme", "semantic"), ("acme", "miss"), ("other", "miss")], 1
    ):
        await bus.publish(FINISHED, finished(seq, cache), tenant=tenant)  # type: ignore[arg-type]
    await bus.publish(INVALIDATED, Invalidated(tags=["prices:7"], entries=2), tenant="other")
    await announce(bus, 1)
    await bus.flush()


async def announce(bus: Bus, seq: int) -> None:
    """A worker's word about itself, which holds for two seconds."""
    status = Status(seq=seq, started_ms=1, state="ready", engine="sim", model="small", queued=3)
    await bus.publish(STATUS, status, slug="small", worker="w1")


async def test_a_tenant_reads_its_own_figures_and_no_more(made: Edge, bus: Bus) -> None:
    await happen(bus)
    async with Reader(made, made.key) as reader:
        assert await reader.next() == ("caller", {"tenant": "acme", "operator": False})
        view = await reader.until(3)
    assert view["tenant"] == "acme"
    assert view["figures"]["ended"] == {"exact": 1, "semantic": 1, "shared": 0, "miss": 1, "failed": 0}
    assert (view["workers"], view["tenants"], view["queued"], view["lost"], view["latest"]) == (None,) * 4 + ([],)


async def test_an_operator_reads_those_of_all(made: Edge, bus: Bus) -> None:
    key = await create(bus, "acme", operator=True)
    await happen(bus)
    async with asyncio.timeout(30):
        while (await made.http.get("/v1/models", headers={"Authorization": f"Bearer {key}"})).status_code != 200:
            await asyncio.sleep(0.01)
    async with Reader(made, key) as reader:
        assert await reader.next() == ("caller", {"tenant": "acme", "operator": True})
        view, seq = await reader.until(4), 1
        while not (view["queued"] and view["latest"]):
            await announce(bus, seq := seq + 1)
            view = await reader.until(4)
    assert {row["name"] for row in view["tenants"]} == {"acme", "other"}
    assert (view["queued"], view["latest"][0]["tags"]) == (3, ["prices:7"])


async def test_a_board_ends_when_its_key_is_taken_back(made: Edge, bus: Bus) -> None:
    async with asyncio.timeout(60):
        async with Reader(made, made.key) as reader:
            await reader.next()
            await revoke(bus, made.key)
            await reader.to_its_end()
        assert (await made.http.get("/v1/board")).status_code == 401


async def test_so_many_boards_and_no_more(made: Edge) -> None:
    async with Reader(made, made.key) as one, Reader(made, made.key) as two, Reader(made, made.key) as three:
        for reader in (one, two, three):
            await reader.next()
        full = await made.http.get("/v1/board")
        assert (full.status_code, full.json()["error"]["code"]) == (429, "overloaded")
        assert full.headers["retry-after"] == "5"
    await eventually(lambda: made.gateway.report()["requests"] == 0)
    async with Reader(made, made.key) as reader:
        assert (await reader.next())[0] == "caller"


async def test_a_board_holds_up_no_drain(made: Edge) -> None:
    async with Reader(made, made.key) as reader, asyncio.timeout(30):
        assert (await reader.next())[0] == "caller"
        await made.gateway.drain()
        await reader.to_its_end()
    await eventually(lambda: made.gateway.report()["requests"] == 0)


async def test_collections_are_those_of_the_tenant(made: Edge, bus: Bus) -> None:
    await ensure_stream(bus)
    assert (await made.http.get("/v1/collections")).json() == {"object": "list", "data": []}
    for tenant, collection in (("acme", "help"), ("acme", "fees"), ("acme", "help"), ("other", "secret")):
        await Hasten(bus, tenant).store(collection, Document(id="a", text="b"))
    found = (await made.http.get("/v1/collections")).json()
    assert [one["id"] for one in found["data"]] == ["fees", "help"]
    assert (await made.http.get("/v1/collections", headers={"Authorization": "Bearer no"})).status_code == 401


async def test_only_an_operator_invalidates_and_in_its_own_tenant(made: Edge, bus: Bus) -> None:
    heard: list[tuple[Invalidate, str]] = []

    async def invalidate(what: Invalidate, call: Call) -> Invalidation:
        heard.append((what, call.tenant))
        return Invalidation(sequence=41, entries=2, waited_ms=3.5)

    cache = Service(bus, "cache", "A scripted cache")
    cache.answer(INVALIDATE, invalidate, limit=10)
    await cache.start()
    key = await create(bus, "globex", operator=True)
    operator = {"Authorization": f"Bearer {key}"}
    refused = await made.http.post("/v1/invalidate", json={"everything": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert "operator" in refused.json()["error"]["message"]
    assert heard == []
    async with asyncio.timeout(30):
        while (await made.http.get("/v1/models", headers=operator)).status_code != 200:
            await asyncio.sleep(0.01)
    body = {"tags": ["prices:7"], "reason": "new prices"}
    done = await made.http.post("/v1/invalidate", json=body, headers=operator)
    assert (done.status_code, done.json()["entries"], done.json()["sequence"]) == (200, 2, 41)
    assert heard == [(Invalidate(tags=["prices:7"], reason="new prices"), "globex")]
    other = await made.http.post("/v1/invalidate", json={**body, "tenant": "acme"}, headers=operator)
    assert (other.status_code, len(heard)) == (403, 1)
    await cache.close()


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, None),
        ({"dry_run": True}, None),
        ({"reason": "why not"}, None),
        ({"tag": ["prices:7"]}, "tag"),
        ({"everything": True, "dryrun": True}, "dryrun"),
        ({"tags": "prices:7"}, None),
        ({"everything": "yes"}, None),
    ],
)
def test_an_invalidation_that_says_nothing_or_too_much_is_refused(body: dict[str, Any], param: str | None) -> None:
    with pytest.raises(Failed) as failed:
        wanted(body)
    assert (failed.value.failure.code, failed.value.failure.param) == ("bad_request", param)
