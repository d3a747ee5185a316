"""Notes that come with and after an answer: what bears it out, what was hidden, what should stand there instead."""

from page_rig import PATIENCE_MS
from playwright.async_api import Browser, expect
from scripted_edge import edge

from hasten.bus import Bus
from hasten.messages.chat import ChatRequest, Chunk, Done, Note
from hasten.service import Call

SENTENCES = ("🌊 The tide rises twice [1].", "It costs 9 euros [2].", "Nobody knows why.")
TEXT = " ".join(SENTENCES)
HOSTILE = "<img src=x onerror=alert(1)>"


async def verified(_: ChatRequest, call: Call) -> None:
    """A generated answer with one sentence borne out, one not, and one without a citation; and a check of its own."""
    await call.send(Chunk(seq=0, text=TEXT))
    one, two, three = ({"start": TEXT.index(said), "end": TEXT.index(said) + len(said)} for said in SENTENCES)
    price = TEXT.index("9")
    found = [
        {**one, "outcome": "supported", "borne_out": True, "passage": "sea/tides#0", "span": [3, 31]},
        {**two, "outcome": "unsupported", "passage": "sea/fees#1", "fault": "figures"},
        {**three, "outcome": "uncited", "fault": "no_such_passage"},
    ]
    counts = {"supported": 1, "unsupported": 1, "uncited": 1}
    await call.send(Note(kind="guard", data={"redacted": {"cards": 2}}))
    await call.send(Note(kind="verification", data={"by": "citations", "passed": False, **counts, "sentences": found}))
    await call.send(Note(kind="verification", data={"by": "prices", "passed": True, "detail": HOSTILE}))
    await call.send(Note(kind="verification", data={"by": "tone", "outcome": "timeout"}))
    await call.send(Note(kind="correction", data={"by": "prices", "start": price, "end": price + 1, "text": "11"}))
    await call.send(Note(kind="cache", data={"hit": None, "stored": False, "reason": "verification"}))
    await call.send(Done(finish_reason="stop", model="small", chunks=1))


async def test_what_bears_an_answer_out_and_what_does_not(browser: Browser, bus: Bus) -> None:
    async with edge(bus) as made:
        made.script = verified
        page = await browser.new_page()
        await page.goto(f"{made.gateway.url}/#key={made.key}")
        await page.locator("#question").fill("When does the tide rise?")
        await page.locator("#question").press("Enter")
        await expect(page.locator(".answer .chip")).to_have_text("generated", timeout=PATIENCE_MS)
        await expect(page.locator(".verification li")).to_have_text(
            [
                "citations not passed · 1 supported, 1 unsupported, 1 uncited",
                "supported 🌊 The tide rises twice [1]. sea/tides#0, characters 3–31",
                "unsupported It costs 9 euros [2]. sea/fees#1 · figures",
                "uncited Nobody knows why. no such passage",
                f"prices passed · {HOSTILE}",
                "tone timeout",
            ]
        )
        await expect(page.locator(".warnings li")).to_have_text(
            ["Correction (prices) “9” should be “11”", "Guard cards has hidden 2 places"]
        )
        await expect(page.locator("dd").first).to_contain_text("not kept: verification")
        assert await page.locator("img").count() == 0
        await page.close()
