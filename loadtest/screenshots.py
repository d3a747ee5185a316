"""Pictures of the web page, from a whole system with the embedded models that answers questions on the demo's articles.

`python -m loadtest.screenshots` writes docs/page-*.png in about two minutes. It needs Chromium (`apt-get install
chromium`) and playwright (the extra `dev`). `--seconds` is how long questions come in before the pictures are taken, so
that the board has something to show; what they are and when they come is the same in every run, what they take is not.
"""

import argparse
import asyncio
import random
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect

from hasten.client import Hasten
from hasten.demo.script import COLLECTION, PARAGRAPH, ingest
from hasten.messages.cache import Invalidate
from hasten.messages.failure import Failed
from hasten.run import say
from hasten.system import System, Wanted, system

ASKED = "How many requests per minute does the API allow?"
IN_OTHER_WORDS = "What number of requests per minute does the API allow?"
ASKED_OF = "document:help/api-limits"
OTHERS = (
    "How much does the Family plan cost per month?",
    "How long is the free trial?",
    "Which file sizes can be uploaded?",
    "When is support available?",
    "How do I cancel my subscription?",
    "Can I get a refund?",
    "How long are deleted files kept?",
    "What does the Studio plan include?",
    "How is my data encrypted?",
    "How many devices can I use?",
    "Which discount do students get?",
    "How do I reset my password?",
)
PER_S = 3.0
"""At the end; at the beginning, when nothing is stored yet, a quarter of it."""
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
WIDE, NARROW = ViewportSize(width=1200, height=1000), ViewportSize(width=360, height=1000)
WAIT_MS = 120_000


async def traffic(hasten: Hasten, seconds: float) -> None:
    """Questions at random times, the first of the list most often, some with a small change of words."""
    rng, asking = random.Random(7), set[asyncio.Task[None]]()
    shares = [1 / (rank + 1) for rank in range(len(OTHERS))]

    async def ask(question: str) -> None:
        try:
            await hasten.ask(question, knowledge=[COLLECTION], **PARAGRAPH)
        except Failed as failed:
            say(f"a question was not answered: {failed.failure.code}")

    times = sorted(seconds * rng.random() ** 0.5 for _ in range(round(seconds * PER_S * 0.625)))
    for earlier, later in pairwise([0.0, *times]):
        await asyncio.sleep(later - earlier)
        question = rng.choices(OTHERS, shares)[0]
        asking.add(asyncio.create_task(ask(question.lower() if rng.random() < 0.3 else question)))
    await asyncio.gather(*asking)


class Album:
    """Takes pictures of one page and puts them into a folder."""

    def __init__(self, browser: Browser, made: System, folder: Path) -> None:
        self._browser, self._made, self._folder = browser, made, folder

    async def opened(self, size: ViewportSize, *, dark: bool = False) -> Page:
        """The page by its link, with the demo's collection as knowledge."""
        context = await self._browser.new_context(viewport=size, color_scheme="dark" if dark else "light")
        page = await context.new_page()
        await page.goto(f"{self._made.http}/#key={self._made.key}")
        await expect(page.locator("#link")).to_have_text("live", timeout=WAIT_MS)
        await page.locator("#knowledge").fill(COLLECTION)
        return page

    async def asked(self, page: Page, question: str) -> None:
        """Asks and waits for the whole answer."""
        await page.locator("#question").fill(question)
        await page.locator("#question").press("Enter")
        await expect(page.locator("#stop")).to_be_disabled(timeout=WAIT_MS)
        await page.locator("#question").blur()

    async def kept(self, page: Page, name: str, part: str | None = None) -> None:
        """Writes what is to be seen, or one part of it."""
        path = self._folder / f"page-{name}.png"
        await (page.screenshot(path=path) if part is None else page.locator(part).screenshot(path=path))
        say(f"{path}: {path.stat().st_size // 1000} kB")


async def pictures(album: Album, hasten: Hasten) -> None:
    """All of them, one after the other."""
    page = await album.opened(WIDE)
    await hasten.invalidate(Invalidate(tags=[ASKED_OF], reason="pictures begin"))
    await album.asked(page, ASKED)
    await album.kept(page, "generated")
    await album.asked(page, IN_OTHER_WORDS)
    await album.kept(page, "hit")
    await page.locator("#tag").fill(ASKED_OF)
    await page.locator("#tag").press("Enter")
    await expect(page.locator("#change-said")).to_contain_text("change", timeout=WAIT_MS)
    await expect(page.locator("#latest li").first).to_contain_text("published on the page", timeout=WAIT_MS)
    await page.locator("#tag").blur()
    await album.kept(page, "board", "#board")
    dark = await album.opened(WIDE, dark=True)
    await album.asked(dark, ASKED)
    await album.asked(dark, IN_OTHER_WORDS)
    await album.kept(dark, "dark")
    narrow = await album.opened(NARROW)
    await album.asked(narrow, ASKED)
    await album.kept(narrow, "360")


async def run(data: Path, folder: Path, seconds: float) -> None:
    """Starts the system, lets questions come in, and takes the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    async with system(Wanted(http="127.0.0.1:0", data=data), say) as made:
        try:
            await made.runtime.start(say)
            async with Hasten.connect(made.nats) as hasten, async_playwright() as playwright:
                say(f"the help centre has {await ingest(hasten)} articles")
                await hasten.invalidate(Invalidate(everything=True, reason="a new start"))
                await traffic(hasten, seconds)
                browser = await playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
                await pictures(Album(browser, made, folder), hasten)
                await browser.close()
        finally:
            await made.runtime.drain()
            await made.runtime.close()


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(".hasten"), help="the data folder, with the models")
    parser.add_argument("--to", type=Path, default=Path("docs"), help="where the pictures go")
    parser.add_argument("--seconds", type=float, default=75.0, help="how long questions come in before")
    given = parser.parse_args(argv)
    asyncio.run(run(given.data, given.to, given.seconds))


if __name__ == "__main__":
    main()
