"""The page of a real `hasten up`, by the link that it prints, with simulated models and everything else as it is."""

import asyncio

import pytest
from page_rig import PATIENCE_MS
from playwright.async_api import Browser, expect
from up_rig import Up

pytestmark = pytest.mark.timeout(300)
QUESTION = "How do I return a parcel that I did not order?"


async def link(up: Up) -> str:
    """The link on stderr."""
    assert up.process.stderr is not None
    async with asyncio.timeout(60):
        while line := (await up.process.stderr.readline()).decode():
            if "the page: " in line:
                return line.partition("the page: ")[2].strip()
    raise AssertionError("hasten up has ended without a link")


async def test_the_link_that_is_printed_leads_to_a_page_that_answers(browser: Browser, up: Up) -> None:
    http, _ = await up.ready()
    address = await link(up)
    assert address.startswith(f"{http}/#key=hk-")
    page = await browser.new_page()
    await page.goto(address)
    await expect(page.locator("#who")).to_have_text("demo, operator", timeout=PATIENCE_MS)
    await expect(page.locator("#model option", has_text="smollm2-135m-q8")).to_have_count(1)
    for source in ("generated", "exact hit"):
        await page.locator("#question").fill(QUESTION)
        await page.locator("#question").press("Enter")
        await expect(page.locator(".answer .chip").first).to_have_text(source, timeout=PATIENCE_MS)
        await expect(page.locator(".answer .text").first).to_have_attribute("aria-busy", "false", timeout=PATIENCE_MS)
    await expect(page.locator("#tiles .tile").first).to_contain_text("1 of 2 answers")
    await expect(page.locator("#workers tbody tr")).to_have_count(2)
