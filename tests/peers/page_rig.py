"""The web page in a real Chromium, before a real gateway, orchestrator and cache; the other stages are scripted."""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from path_rig import Rig
from patience import PATIENCE_S, until
from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from hasten.bus import Bus
from hasten.gateway.service import Gateway, build
from hasten.gateway.settings import Settings
from hasten.keys import create
from hasten.messages.generate import STATUS, Status
from hasten.messages.route import MODELS, ModelInfo, ModelList, Models
from hasten.service import Call, Service

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REQUIRED = "HASTEN_REQUIRE_CHROMIUM"
MISSING = "the page is tried in Chromium: apt-get install chromium, or name another one in HASTEN_CHROMIUM"
PATIENCE_MS = 1000 * PATIENCE_S

expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str:
    """Where Chromium is; without it the test is skipped, or fails where it is required."""
    found = os.environ.get("HASTEN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        (pytest.fail if os.environ.get(REQUIRED) else pytest.skip)(MISSING)
    return found


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Chromium for the tests of a file, which takes longer to start than most of them: its address."""
    folder = tmp_path_factory.mktemp("chromium")
    command = [chromium(), *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield _address(folder / "DevToolsActivePort", process)
        finally:
            process.kill()


def _address(told: Path, process: subprocess.Popen[bytes]) -> str:
    """What Chromium writes down when it listens: its port and a path."""
    before_s = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < before_s:
        lines = told.read_text().splitlines() if told.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.02)
    raise RuntimeError("Chromium does not start")


@pytest_asyncio.fixture
async def browser(devtools: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        made = await playwright.chromium.connect_over_cdp(devtools, timeout=PATIENCE_MS)
        yield made
        await made.close()


class Face:
    """The page before a gateway of the tenant acme, and what a test does with it. `complaints` are the errors of the
    page and what its policy has blocked."""

    def __init__(self, page: Page, gateway: Gateway, rig: Rig, key: str) -> None:
        self.page, self.gateway, self.rig, self.key = page, gateway, rig, key
        self.models = ["m", "better"]
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(said.text) if "Policy" in said.text else None)
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))

    def by_id(self, name: str) -> Locator:
        return self.page.locator(f"#{name}")

    @property
    def answer(self) -> Locator:
        """The latest answer."""
        return self.page.locator("article.answer").first

    async def open(self, key: str | None = None) -> None:
        """Opens the page by its link, and returns when the board is live."""
        await self.page.goto(f"{self.gateway.url}/#key={self.key if key is None else key}")
        await expect(self.by_id("link")).to_have_text("live")

    async def ask(self, question: str) -> None:
        """Writes a question and presses Enter."""
        await self.by_id("question").fill(question)
        await self.by_id("question").press("Enter")

    async def answered(self, question: str, source: str, *, stored: bool = True) -> None:
        """Asks, and returns when the answer is whole and came from there; what was generated is `stored` then."""
        before = self.stored
        await self.ask(question)
        await expect(self.answer.locator(".asked")).to_have_text(question)
        await expect(self.answer.locator(".text")).to_have_attribute("aria-busy", "false")
        await expect(self.answer.locator(".chip")).to_have_text(source)
        if source == "generated" and stored:
            await until(lambda: self.stored > before)

    @property
    def stored(self) -> int:
        """How many answers the cache has stored."""
        return int(self.rig.cache.report()["puts"].get("stored", 0))

    def fact(self, name: str) -> Locator:
        """What is said of the latest answer under this name."""
        return self.answer.locator("dt", has_text=re.compile(f"^{name}$")).locator("xpath=following-sibling::dd[1]")


def gateway(bus: Bus, http: str = "127.0.0.1:0") -> Gateway:
    """A gateway whose boards are told often."""
    return build(Settings(http=http, board_s=0.1), bus)


@pytest_asyncio.fixture
async def face(rig: Rig, bus: Bus, browser: Browser) -> AsyncIterator[Face]:
    key = await create(bus, "acme", "test", operator=True)
    edge = gateway(bus)
    context = await browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = await context.new_page()
    made = Face(page, edge, rig, key)

    async def models(_: Models, __: Call) -> ModelList:
        return ModelList(models=[ModelInfo(name=name, slug="m") for name in made.models])

    router = Service(bus, "models", "A scripted table of models")
    router.answer(MODELS, models, limit=10)
    await router.start()
    await edge.start()
    yield made
    await context.close()
    await made.gateway.close()
    await router.close()
    assert made.complaints == []


@contextlib.asynccontextmanager
async def working(bus: Bus, model: str = "m") -> AsyncIterator[None]:
    """A worker that says of itself again and again that it is well."""

    async def repeat() -> None:
        for seq in itertools.count(100):
            await announce(bus, seq, model)
            await asyncio.sleep(0.1)

    task = asyncio.ensure_future(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def announce(bus: Bus, seq: int = 1, model: str = "m") -> None:
    """A worker's word about itself."""
    status = Status(seq=seq, started_ms=1, state="ready", engine="scripted", model=model, slots=4, active=1, queued=2)
    await bus.publish(STATUS, status, slug="m", worker="w1")
