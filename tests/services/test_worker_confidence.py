"""What a worker says, when it is asked, of how probable its tokens were."""

from typing import Any

import msgspec
import pytest
from worker_rig import QUESTION, ask, model_of, running

from hasten.bus import Bus
from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.generate import Confidence
from hasten.worker.confidence import Tally
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.body import chat_body

ANSWER = "one two three four five six seven eight"


def confidences(events: list[Any]) -> list[Confidence]:
    notes = [event for event in events if isinstance(event, Note) and event.kind == "confidence"]
    return [msgspec.convert(note.data, Confidence) for note in notes]


async def test_it_is_told_after_so_many_tokens_and_at_the_end(bus: Bus) -> None:
    async with running(bus, model_of(sim_answer=ANSWER, sim_logprob=-0.5)):
        events = await ask(bus, msgspec.structs.replace(QUESTION, confidence_after=3))
    assert confidences(events) == [
        Confidence(tokens=3, mean_logprob=-0.5, min_logprob=-0.5),
        Confidence(tokens=8, mean_logprob=-0.5, min_logprob=-0.5),
    ]
    assert (events[-2].data["tokens"], isinstance(events[-1], Done)) == (8, True)
    first = next(at for at, event in enumerate(events) if isinstance(event, Note))
    before = "".join(event.text for event in events[:first] if isinstance(event, Chunk))
    assert len(before.split()) < 3, "whoever has three tokens has heard of them"


async def test_nobody_is_told_who_has_not_asked(bus: Bus) -> None:
    async with running(bus, model_of(sim_answer=ANSWER, sim_logprob=-0.5)):
        assert confidences(await ask(bus)) == []


@pytest.mark.parametrize(
    ("deltas", "told"),
    [
        ([[]], [None]),
        ([[-1.0]], [None]),
        ([[-1.0], [-3.0]], [None, (2, -2.0, -3.0)]),
        ([[-1.0, -2.0, -6.0]], [(3, -3.0, -6.0)]),
        ([[-1.0, -3.0], [], [-5.0]], [(2, -2.0, -3.0), None, None]),
    ],
)
def test_a_tally_is_told_once_on_the_way(deltas: list[list[float]], told: list[Any]) -> None:
    tally = Tally(2)
    found = [note and tuple(note.data.values()) for note in (tally.add(delta) for delta in deltas)]
    assert found == told


def test_an_openai_stream_is_asked_for_them_and_gives_them() -> None:
    body = chat_body(msgspec.structs.replace(QUESTION, confidence_after=3))
    assert (body["logprobs"], body["top_logprobs"]) == (True, 1)
    assert "logprobs" not in chat_body(QUESTION)
    content = [{"token": "Hi", "logprob": -0.25}, {"token": "!", "logprob": None}, {"token": "?"}, "odd"]
    (delta,) = Answer().take({"choices": [{"delta": {"content": "Hi!"}, "logprobs": {"content": content}}]})
    assert (delta.text, delta.logprobs) == ("Hi!", [-0.25])
    for odd in (None, {}, {"content": None}, "odd"):
        (delta,) = Answer().take({"choices": [{"delta": {"content": "Hi"}, "logprobs": odd}]})
        assert delta.logprobs == []
