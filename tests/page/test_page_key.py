"""Without a key, with a wrong one, by keyboard alone, and what a failure says."""

from page_rig import Face
from path_rig import QUESTION
from playwright.async_api import expect

from hasten.messages.failure import Failed


async def test_without_a_key_the_page_is_there_and_asks_for_one(face: Face) -> None:
    await face.page.goto(f"{face.gateway.url}/")
    await expect(face.by_id("key-form")).to_be_visible()
    await expect(face.by_id("key")).to_be_focused()
    await face.ask(QUESTION)
    await expect(face.by_id("key-why")).to_contain_text("Before you can ask")
    await expect(face.by_id("key")).to_be_focused()
    await face.page.keyboard.type(face.key)
    await face.page.keyboard.press("Enter")
    await expect(face.by_id("link")).to_have_text("live")
    await expect(face.by_id("key-form")).to_be_hidden()
    await expect(face.by_id("question")).to_be_focused()
    assert await face.by_id("key").input_value() == ""
    await face.answered(QUESTION, "generated")


async def test_a_wrong_key_is_said_to_be_one(face: Face) -> None:
    await face.page.goto(f"{face.gateway.url}/#key=hk-not-a-key")
    await expect(face.by_id("key-why")).to_contain_text("The gateway does not know this key")
    assert face.page.url == f"{face.gateway.url}/"
    await face.page.goto(f"{face.gateway.url}/#key={face.key}")
    await expect(face.by_id("link")).to_have_text("live")
    await face.by_id("change-key").click()
    await expect(face.by_id("key-form")).to_be_visible()
    await expect(face.by_id("who")).to_be_empty()


async def test_all_of_it_by_keyboard(face: Face) -> None:
    await face.open()
    keyboard = face.page.keyboard
    await expect(face.by_id("question")).to_be_focused()
    await keyboard.type("First line")
    await keyboard.press("Shift+Enter")
    await keyboard.type("second line")
    await keyboard.press("Control+Enter")
    await expect(face.answer.locator(".asked")).to_have_text("First line\nsecond line")
    await expect(face.answer.locator(".chip")).to_have_text("generated")
    order = []
    for _ in range(30):
        await keyboard.press("Tab")
        focused = face.page.locator(":focus")
        if not await focused.count():
            break
        style = (
            "(one) => [one.id || one.tagName, getComputedStyle(one).outlineStyle, getComputedStyle(one).outlineWidth]"
        )
        name, outline, outline_width = await focused.evaluate(style)
        assert (outline, outline_width) == ("solid", "2px"), name
        order.append(name)
    assert order[:4] == ["model", "knowledge", "cache", "BUTTON"]
    assert order[4:6] == ["SUMMARY", "tag"]
    assert len(order) < 30, "the focus leaves the page at its end"


async def test_an_empty_question_is_not_asked(face: Face) -> None:
    await face.open()
    for empty in ("", "   ", "\n"):
        await face.ask(empty)
        await expect(face.by_id("ask-problem")).to_have_text("Write a question first.")
    assert face.rig.peers.routes == []


async def test_a_failure_says_what_and_when_to_ask_again(face: Face) -> None:
    await face.open()
    face.rig.peers.workers = ()
    await face.ask(QUESTION)
    await expect(face.answer.locator(".chip")).to_have_text("failed")
    await expect(face.answer.get_by_role("alert")).to_contain_text("No worker is left.")
    await face.by_id("knowledge").fill("No Such Name")
    await face.ask(QUESTION)
    await expect(face.answer.get_by_role("alert")).to_contain_text("a-z, 0-9")


async def test_a_failure_in_mid_stream_leaves_what_has_come(face: Face) -> None:
    async def breaks(seq: int, _: object) -> None:
        if seq == 3:
            raise Failed("internal", "the engine has failed")

    face.rig.peers.broken = {"w1": breaks, "w2": breaks}
    face.rig.peers.continues = False
    await face.open()
    await face.ask(QUESTION)
    await expect(face.answer.get_by_role("alert")).to_contain_text("The engine has failed")
    await expect(face.answer.locator(".text")).to_have_text("The tide rises")
