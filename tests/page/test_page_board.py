"""The live board on the page: its figures, its two buttons, who sees what, and that it comes back by itself."""

import re

from page_rig import Face, gateway, working
from path_rig import QUESTION, SAME
from playwright.async_api import expect

from hasten.keys import create, revoke
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.retrieve import Passage

PASSAGE = Passage(id="help/a#0", collection="help", document="a", text="30 days", tags=["document:help/a"])


async def test_figures_follow_what_happens(face: Face) -> None:
    await face.open()
    tiles = face.by_id("tiles").locator(".tile")
    await expect(tiles.nth(0)).to_contain_text("0 of 0 answers")
    await face.answered(QUESTION, "generated")
    await face.answered(QUESTION, "exact hit")
    await face.answered(SAME, "hit by meaning")
    await expect(tiles.nth(0)).to_have_text("Hit rate67%2 of 3 answers")
    counts = face.by_id("sources").locator("tbody tr td:nth-of-type(1)")
    await expect(counts).to_have_text(["1", "1", "0", "1", "0"])
    await expect(face.by_id("chart").locator("rect.exact")).to_have_count(1)
    await expect(face.by_id("chart").get_by_role("img")).to_have_accessible_name(re.compile("^Requests in each 5 s"))


async def test_an_operator_sees_workers_and_all_tenants(face: Face) -> None:
    bus = face.gateway.service.bus
    await bus.publish(FINISHED, Finished(source="o", seq=1, request_id="r", outcome="done"), tenant="other")
    await face.open()
    worker = face.by_id("workers").locator("tbody tr")
    async with working(bus):
        await expect(worker.locator("td").nth(0)).to_have_text("ready")
        await expect(worker.locator("td").nth(2)).to_have_text("2")
        await expect(face.by_id("tiles").locator(".tile").nth(3)).to_have_text("In line21 of 4 slots busy")
    await expect(worker.locator("td").nth(0)).to_have_text("gone")
    await face.answered(QUESTION, "generated")
    await expect(face.by_id("tenants").locator("tbody th")).to_have_text(["acme", "other"])


async def test_a_tenant_sees_its_own_and_is_offered_no_button(face: Face) -> None:
    bus = face.gateway.service.bus
    await bus.publish(FINISHED, Finished(source="o", seq=1, request_id="r", outcome="done"), tenant="other")
    await face.open(await create(bus, "acme", "a tenant's"))
    await expect(face.by_id("who")).to_have_text("acme")
    await expect(face.by_id("board-scope")).to_contain_text("tenant acme")
    await expect(face.by_id("change-form")).to_be_hidden()
    await expect(face.by_id("change-needs")).to_contain_text("hasten keys create TENANT --operator")
    await face.answered(QUESTION, "generated")
    await face.answered(QUESTION, "exact hit")
    await expect(face.by_id("tiles").locator(".tile").nth(0)).to_contain_text("1 of 2 answers")
    async with working(bus):
        await expect(face.by_id("workers").locator("thead th").nth(1)).to_have_text("Workers ready")
        await expect(face.by_id("workers").locator("tbody tr")).to_have_text(re.compile("^m1[0-9.]+ ms"))
    await expect(face.by_id("tenants-card")).to_be_hidden()
    assert await face.answer.get_by_role("button").count() == 0


async def test_a_published_change_removes_the_answer(face: Face) -> None:
    face.rig.peers.passages = [PASSAGE]
    await face.open()
    await face.by_id("knowledge").fill("help")
    await face.answered(QUESTION, "generated")
    await face.answered(QUESTION, "exact hit")
    await face.by_id("tag").fill("document:help/a")
    await face.by_id("tag").press("Enter")
    await expect(face.by_id("change-said")).to_contain_text("1 answer is gone: change")
    await expect(face.by_id("latest").locator("li")).to_contain_text("1 answer document:help/a")
    await face.answered(QUESTION, "generated", stored=False)


async def test_a_rejected_hit_never_answers_that_question_again(face: Face) -> None:
    await face.open()
    await face.answered(QUESTION, "generated")
    await face.answered(SAME, "hit by meaning")
    await face.answer.get_by_role("button", name="Reject this hit").click()
    await expect(face.answer.locator(".removal .said")).to_contain_text(
        "1 answer is gone, and never answers that question again"
    )
    await expect(face.by_id("latest").locator("li")).to_have_count(1)
    await face.answered(QUESTION, "generated")
    await face.answered(SAME, "generated")


async def test_the_board_comes_back_when_the_gateway_does(face: Face) -> None:
    await face.open()
    port, bus = face.gateway.url.rpartition(":")[2], face.gateway.service.bus
    await face.gateway.close()
    await expect(face.by_id("link")).to_have_text("reconnecting…")
    await face.ask(QUESTION)
    await expect(face.answer.get_by_role("alert")).to_contain_text("The gateway does not answer")
    face.gateway = gateway(bus, http=f"127.0.0.1:{port}")
    await face.gateway.start()
    await expect(face.by_id("link")).to_have_text("live")
    await face.answered(QUESTION, "generated")


async def test_a_key_that_is_taken_back_is_asked_for_again(face: Face) -> None:
    await face.open()
    await revoke(face.gateway.service.bus, face.key)
    await expect(face.by_id("key-form")).to_be_visible()
    await expect(face.by_id("key-why")).to_contain_text("does not know this key")
    await expect(face.by_id("key")).to_be_focused()
