"""A feed between a request and its HTTP answer: all that waits at once, in order, and never more than it may hold."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hasten.gateway.feed import Feed, coalesced
from hasten.messages.chat import Chunk, Done, Note, Usage

DONE = Done(finish_reason="stop", usage=Usage(prompt_tokens=7, completion_tokens=3), model="small")
chunk_texts = st.lists(st.tuples(st.sampled_from(["text", "reasoning", "call", "note"]), st.text(min_size=1)))


@given(chunk_texts)
def test_joining_loses_nothing_and_keeps_the_order(pieces: list[tuple[str, str]]) -> None:
    events: list[Any] = []
    for seq, (kind, text) in enumerate(pieces):
        if kind == "note":
            events.append(Note(kind="x", data={"text": text}))
        elif kind == "call":
            events.append(Chunk(seq=seq, tool_calls=[{"id": text}]))
        else:
            events.append(Chunk(seq=seq, **{kind: text}))  # type: ignore[arg-type]
    joined = coalesced(events)

    def flat(some: list[Any]) -> list[tuple[str, str]]:
        runs: list[tuple[str, str]] = []
        for one in some:
            kind = "text" if getattr(one, "text", "") else "reasoning" if getattr(one, "reasoning", "") else "other"
            value = getattr(one, kind, None) or str(one)
            if runs and runs[-1][0] == kind != "other":
                runs[-1] = (kind, runs[-1][1] + value)
            else:
                runs.append((kind, value))
        return runs

    assert flat(joined) == flat(events)
    assert len(joined) == len(flat(events))


async def test_a_feed_gives_all_that_waits_at_once() -> None:
    feed = Feed(10_000)
    for seq in range(5):
        feed.put(Chunk(seq=seq, text=str(seq)))
    feed.put(DONE)
    assert [getattr(event, "text", event) for event in await feed.take(None)] == ["01234", DONE]


async def test_a_feed_that_is_full_ends_with_the_reason_after_all_it_has_taken() -> None:
    feed = Feed(1_000)
    for seq in range(100):
        feed.put(Chunk(seq=seq, text="x" * 72))
    text, failure = await feed.take(None)
    assert text.text == "x" * 72 * 5
    assert (failure.code, feed.ended) == ("cancelled", True)
    assert "1000 bytes" in failure.detail


async def test_a_feed_that_is_emptied_takes_any_amount() -> None:
    feed = Feed(1_000)
    for seq in range(100):
        feed.put(Chunk(seq=seq, text="x" * 72))
        await feed.take(None)
    assert not feed.ended
    assert await feed.take(0.001) == []
