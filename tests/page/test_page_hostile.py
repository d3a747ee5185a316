"""Whatever a model, a document or another service says becomes text on the page, and nothing else."""

from page_rig import Face, working
from path_rig import QUESTION
from playwright.async_api import expect

from hasten.messages.cache import INVALIDATED, Invalidated
from hasten.messages.retrieve import Passage

IMAGE = '<img src=x onerror="alert(1)">'
SCRIPT = "</p><script>alert(2)</script><a href='javascript:alert(3)'>x</a>"


async def test_hostile_text_stays_text(face: Face) -> None:
    peers = face.rig.peers
    face.models = [f"m{IMAGE}", SCRIPT]
    peers.answer = f"# Not a heading\n{IMAGE}{SCRIPT} &amp; \u202e[x](javascript:alert(4))"
    peers.routed = {"reason": f"because {SCRIPT}", "confidence": 0.5}
    peers.passages = [
        Passage(id="a", collection="help", document=IMAGE, text=IMAGE, title=SCRIPT, url="javascript:alert(5)"),
        Passage(id="b", collection="help", document="b", text=IMAGE, title=IMAGE, url="data:text/html,<script>x"),
    ]
    await face.open()
    await expect(face.by_id("model").locator("option")).to_have_text(["auto", f"m{IMAGE}", SCRIPT])
    await face.by_id("knowledge").fill("help")
    question = f"{QUESTION} {IMAGE}{SCRIPT}"
    await face.answered(question, "generated")
    await expect(face.answer.locator(".text")).to_have_text(peers.answer)
    await expect(face.fact("Router")).to_contain_text(f"because {SCRIPT}")
    await expect(face.answer.locator(".passages li").first).to_contain_text(SCRIPT)
    assert await face.answer.locator("img, script, iframe, a, .text *").count() == 0


async def test_hostile_events_stay_text_on_the_board(face: Face) -> None:
    bus = face.gateway.service.bus
    await bus.publish(INVALIDATED, Invalidated(tags=[IMAGE, "prices:7"], entries=3, reason=SCRIPT), tenant="acme")
    await face.open()
    await expect(face.by_id("latest").locator("li")).to_contain_text(f"3 answers {IMAGE}, prices:7 {SCRIPT}")
    async with working(bus, model=IMAGE):
        await expect(face.by_id("workers").locator("tbody th")).to_contain_text(IMAGE)
    assert await face.by_id("board").locator("img, script, a").count() == 0


async def test_long_answers_neither_overflow_nor_hang(face: Face) -> None:
    await face.page.set_viewport_size({"width": 360, "height": 740})
    await face.open()
    for number, text in enumerate(("x" * 4000, "word " * 3000, "\n" * 500)):
        face.rig.peers.answer = f"{text}end {number}"
        await face.answered(f"{QUESTION} {number}", "generated")
        await expect(face.answer.locator(".text")).to_contain_text(f"end {number}")
        assert await width(face) <= 360


async def width(face: Face) -> int:
    """How wide the page is, in CSS pixels."""
    return int(await face.page.locator("html").evaluate("(root) => root.scrollWidth"))
