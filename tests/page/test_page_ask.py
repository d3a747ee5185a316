"""Asking on the page: the text as it comes, where it came from, what ran when, stopping, and asking meanwhile."""

import asyncio
from typing import Any

from page_rig import Face, gateway
from path_rig import QUESTION, SAME
from patience import until
from playwright.async_api import expect

from hasten.messages.retrieve import Passage

PASSAGE = Passage(
    id="help/returns#0",
    collection="help",
    document="returns",
    title="Returning shoes",
    text="Brown shoes can be returned for 30 days.",
    url="https://example.com/returns",
    score=0.82,
    start=10,
    end=50,
    tags=["document:help/returns"],
)


class Gate:
    """Holds a worker before its chunk number `at`, until it is opened."""

    def __init__(self, at: int) -> None:
        self.at, self.open = at, asyncio.Event()

    async def __call__(self, seq: int, _: Any) -> None:
        if seq == self.at:
            await self.open.wait()


async def test_the_link_brings_the_key_and_the_address_bar_loses_it(face: Face) -> None:
    await face.open()
    page = face.page
    assert page.url == f"{face.gateway.url}/"
    await expect(face.by_id("who")).to_have_text("acme, operator")
    await expect(face.by_id("key-form")).to_be_hidden()
    stored = await page.context.storage_state()
    assert face.key not in str(stored)
    await page.reload()
    await expect(face.by_id("link")).to_have_text("live")
    other = await page.context.new_page()
    await other.goto(f"{face.gateway.url}/")
    await expect(other.locator("#key-form")).to_be_visible()
    await other.close()


async def test_an_answer_with_all_that_is_known_of_it(face: Face) -> None:
    face.rig.peers.passages = [PASSAGE]
    face.rig.peers.routed = {"reason": "the cheapest that is good enough", "confidence": 0.91}
    face.rig.peers.answer = "Thirty days.\n\n- unworn\n- in the box"
    await face.open()
    await expect(face.by_id("model").locator("option")).to_have_text(["auto", "m", "better"])
    await face.by_id("knowledge").fill("help")
    await face.answered(QUESTION, "generated")
    await expect(face.answer.locator(".text")).to_have_text("Thirty days.\n\n- unworn\n- in the box")
    await expect(face.fact("Router")).to_have_text("m on w1 · the cheapest that is good enough · confidence 0.91")
    await expect(face.fact("Prompt tokens")).to_have_text("10 before, 5 after · 50% less")
    await expect(face.fact("First token")).to_contain_text("in this page")
    await expect(face.fact("Cache")).to_contain_text("nothing is stored")
    await expect(face.answer.locator(".passages a")).to_have_attribute("href", "https://example.com/returns")
    await expect(face.answer.locator(".passages li")).to_contain_text("help · returns · characters 10–50 · score 0.820")
    stages = face.answer.locator(".waterfall tbody th")
    await expect(stages.filter(has_text="look up by meaning")).to_have_count(1)
    await expect(face.answer.locator(".waterfall .stage.miss")).not_to_have_count(0)
    await expect(stages.filter(has_text="generate")).to_have_count(1)

    await face.answered(QUESTION, "exact hit")
    await expect(face.answer.locator(".waterfall .stage.hit th")).to_have_text("look up by key")
    await expect(face.answer.locator(".waterfall .stage.skipped").last).to_contain_text("the answer was there")
    await expect(face.page.locator("article.answer").nth(1).locator("dl")).to_be_hidden()

    await face.answered(SAME, "hit by meaning")
    await expect(face.fact("Source")).to_contain_text("similarity 1.000")
    await expect(face.fact("Source")).to_contain_text("stored")
    await expect(face.answer.locator(".passages li")).to_have_count(1)
    assert len(face.rig.peers.generated) == 1


async def test_the_cache_may_be_left_out_and_the_model_chosen(face: Face) -> None:
    await face.open()
    await face.answered(QUESTION, "generated")
    await face.by_id("cache").select_option("off")
    await face.by_id("model").select_option("better")
    await face.answered(QUESTION, "generated", stored=False)
    assert [route.model for route in face.rig.peers.routes] == ["auto", "better"]
    await face.by_id("cache").select_option("auto")
    await face.by_id("model").select_option("auto")
    await face.answered(QUESTION, "exact hit")


async def test_text_is_shown_as_it_comes_and_escape_stops_the_generation(face: Face) -> None:
    gate = Gate(at=3)
    face.rig.peers.broken["w1"] = gate
    await face.open()
    await face.ask(QUESTION)
    await expect(face.answer.locator(".text")).to_have_text("The tide rises")
    await expect(face.answer.locator(".text")).to_have_attribute("aria-busy", "true")
    await expect(face.by_id("stop")).to_be_enabled()
    await expect(face.by_id("question")).to_be_focused()
    await face.page.keyboard.press("Escape")
    await expect(face.answer.locator(".chip")).to_have_text("stopped")
    await expect(face.answer.locator(".text")).to_have_text("The tide rises")
    await expect(face.by_id("stop")).to_be_disabled()
    await expect(face.by_id("said")).to_have_text("Stopped.")
    await until(lambda: face.rig.peers.cancelled)


async def test_a_second_question_while_one_streams(face: Face) -> None:
    gate = Gate(at=2)
    face.rig.peers.broken["w1"] = gate
    await face.open()
    await face.ask(QUESTION)
    first = face.page.locator("article.answer").last
    await expect(first.locator(".text")).to_have_text("The tide")
    await face.ask("And when does the moon rise over the harbour wall?")
    await expect(face.page.locator("article.answer")).to_have_count(2)
    await expect(face.answer.locator(".text")).to_have_text("The tide")
    await face.answer.get_by_role("button", name="Stop").click()
    await expect(face.answer.locator(".chip")).to_have_text("stopped")
    await expect(first.locator(".text")).to_have_attribute("aria-busy", "true")
    gate.open.set()
    await expect(first.locator(".text")).to_have_text("The tide rises twice a day.")
    await expect(first.locator(".chip")).to_have_text("generated")


async def test_the_same_question_twice_at_once_is_one_generation(face: Face) -> None:
    gate = Gate(at=2)
    face.rig.peers.broken["w1"] = gate
    await face.open()
    await face.ask(QUESTION)
    await expect(face.answer.locator(".text")).to_have_text("The tide")
    await face.ask(QUESTION)
    await expect(face.page.locator("article.answer").first.locator(".text")).to_have_text("The tide")
    gate.open.set()
    await expect(face.page.locator("article.answer .chip")).to_have_text(["shared", "generated"])
    assert len(face.rig.peers.generated) == 1


async def test_an_answer_goes_on_when_its_gateway_has_gone(face: Face) -> None:
    gate = Gate(at=3)
    face.rig.peers.broken["w1"] = gate
    await face.open()
    await face.ask(QUESTION)
    await expect(face.answer.locator(".text")).to_have_text("The tide rises")
    port, bus = face.gateway.url.rpartition(":")[2], face.gateway.service.bus
    await face.gateway.close()
    await expect(face.answer.locator(".state")).to_contain_text("the connection was lost")
    gate.open.set()
    face.gateway = gateway(bus, http=f"127.0.0.1:{port}")
    await face.gateway.start()
    await expect(face.answer.locator(".chip")).to_have_text("generated")
    await expect(face.answer.locator(".text")).to_have_text("The tide rises twice a day.")
