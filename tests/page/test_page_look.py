"""How the page looks, as far as it can be computed: contrast, themes, narrow screens, names for what can be used."""

import re
from typing import Any, Literal

import pytest
from page_rig import Face, announce
from path_rig import QUESTION
from playwright.async_api import expect

from hasten.messages.cache import INVALIDATED, Invalidated

TEXT, LARGE = 4.5, 3.0
"""What WCAG 2.2 AA asks for: text, and text from 24 px on."""
PAIRS = """(root) => {
  const rgba = (color) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const found = rgba(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const pairs = [];
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !one.checkVisibility() || one.closest(":disabled, .unseen, .skip, option")) continue;
    const style = getComputedStyle(one);
    pairs.push({ text, size: parseFloat(style.fontSize), ink: rgba(style.color), ground: ground(one) });
  }
  return pairs;
}"""
OUTSIDE = """(main) => [...main.querySelectorAll("*")]
  .filter((one) => one.checkVisibility() && !one.closest(".unseen, .scale, select"))
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.outerHTML.slice(0, 80))"""
UNNAMED = """(root) => [...root.querySelectorAll("input, select, textarea, button, a, summary, [role=img]")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !one.textContent.trim() && !one.labels?.length && !one.getAttribute("aria-label"))
  .map((one) => one.outerHTML)"""


def luminance(colour: list[int]) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (x / 255 for x in colour[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(pair: dict[str, Any]) -> float:
    """Of a text and its ground, from 1 to 21."""
    dark, light = sorted((luminance(pair["ink"]), luminance(pair["ground"])))
    return (light + 0.05) / (dark + 0.05)


async def filled(face: Face) -> None:
    """Shows everything that the page can: answers from each source, a failure, an eviction, a worker."""
    bus = face.gateway.service.bus
    await bus.publish(INVALIDATED, Invalidated(tags=["prices:7"], entries=1, reason="change"), tenant="acme")
    await announce(bus, seq=5)
    await face.open()
    await expect(face.by_id("workers").locator("tbody tr")).to_have_count(1)
    await face.answered(QUESTION, "generated")
    face.rig.peers.workers = ()
    await face.ask("And what of sandals that nobody has worn yet?")
    await expect(face.answer.get_by_role("alert")).to_be_visible()
    await face.answered(QUESTION, "exact hit")
    await expect(face.by_id("latest").locator("li")).to_have_count(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_text_has_the_contrast_of_aa(face: Face, theme: Literal["light", "dark"]) -> None:
    await face.page.emulate_media(color_scheme=theme)
    await filled(face)
    pairs = await face.page.locator("body").evaluate(PAIRS)
    assert len(pairs) > 60
    weak = [
        (pair["text"], round(contrast(pair), 2))
        for pair in pairs
        if contrast(pair) < (LARGE if pair["size"] >= 24 else TEXT)
    ]
    assert weak == []
    assert (luminance(pairs[0]["ground"]) < 0.1) == (theme == "dark")


async def test_the_theme_can_be_chosen_and_stays(face: Face) -> None:
    await face.open()
    body = face.page.locator("html")
    ground = "(root) => getComputedStyle(root).backgroundColor"
    light = await body.evaluate(ground)
    await face.by_id("theme").click()
    await expect(face.by_id("theme")).to_have_accessible_name("Light theme")
    assert await body.evaluate(ground) != light
    await face.page.reload()
    await expect(face.by_id("link")).to_have_text("live")
    await expect(body).to_have_attribute("data-theme", "dark")
    assert await body.evaluate(ground) != light


async def test_a_narrow_screen_shows_all_of_it(face: Face) -> None:
    await filled(face)
    for size in (768, 360):
        await face.page.set_viewport_size({"width": size, "height": 740})
        await expect(face.page.locator("main")).to_have_css("grid-template-columns", re.compile(r"^\S+$"))
        assert await face.page.locator("html").evaluate("(root) => root.scrollWidth") <= size
        assert await face.page.locator("main").evaluate(OUTSIDE) == []


async def test_whatever_can_be_used_has_a_name_and_one_heading_leads(face: Face) -> None:
    await filled(face)
    assert await face.page.locator("body").evaluate(UNNAMED) == []
    assert await face.page.locator("h1").count() == 1
    assert await face.page.locator("html").get_attribute("lang") == "en"
    ids = await face.page.locator("html").evaluate("(root) => [...root.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
