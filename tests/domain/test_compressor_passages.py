"""What becomes of passages: the answer survives, what is kept is verbatim, and the order does not matter."""

import random

import pytest
from compressor_rig import COUNTER, FACT, POLICY, QUESTION, filler, run, talk

from hasten.compressor.domain import compress
from hasten.compressor.sentences import split
from hasten.compressor.settings import Settings
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Passage


def test_the_answer_survives_in_a_long_passage_and_the_rest_goes() -> None:
    made = run([QUESTION], [filler(1000), f"{filler(1000)}{FACT} {filler(1000)}"], token_budget=400)
    assert FACT in made.messages[-1].text
    assert made.tokens_after <= 400 < 2000 < made.tokens_before
    cut = {part.id: part for part in made.parts if part.kind == "passage"}
    assert 0 < cut["p1"].after < cut["p1"].before
    assert "sentences kept" in cut["p1"].why


def test_passages_are_numbered_in_the_order_of_used() -> None:
    made = run([QUESTION], ["One is here.", "", "Two is here."], token_budget=2000)
    assert made.used == ["p0", "p2"]
    assert made.messages[-1].text == (
        f"[1] Title 0\nOne is here.\n\n[2] Title 2\nTwo is here.\n\nQuestion: {QUESTION.text}"
    )
    assert made.messages[0] == Turn(role="system", content=Settings().instruction)


def test_headings_that_repeat_the_title_line_are_not_said_twice() -> None:
    text = "# Refunds\n\n## Within two weeks\n\nMoney comes back.\n\n## Later\n\nIt does not."
    passage = Passage(id="p", collection="c", document="d", text=text, title="Refunds", heading="Within two weeks")
    made = compress(Compress(messages=[QUESTION], passages=[passage]), COUNTER, POLICY)
    shown = "[1] Refunds › Within two weeks\nMoney comes back.\n\n## Later\n\nIt does not.\n\n"
    assert made.messages[-1].text == f"{shown}Question: {QUESTION.text}"


def test_names_and_part_numbers_are_never_joined_or_cut() -> None:
    text = "Verify bearing preload in pump KX-440B before hand-over. " + filler(500)
    question = Turn(role="user", content="What about the KX-440B?")
    made = run([question], [text], token_budget=150)
    assert "Verify bearing preload in pump KX-440B before hand-over." in made.messages[-1].text
    assert set(made.messages[-1].text.split()) <= set(f"{text} [1] Title 0 Question: {question.text}".split())


def test_figures_are_kept_as_they_are_or_not_at_all() -> None:
    law = "Turnover 2019: EUR 1,250,000. Rate: 12.5% until 31.12.2020, then 9%. Exempt if < 50,000."
    question = Turn(role="user", content="Which rate applied in 2020?")
    made = run([question], [filler(300), law], token_budget=140)
    sentences = [unit.text for unit in split(law)]
    kept = [one for one in sentences if one in made.messages[-1].text]
    assert "Rate: 12.5% until 31.12.2020, then 9%." in kept
    body = made.messages[-1].text.partition("Title 1\n")[2].partition("\n\nQuestion:")[0]
    assert all(one in sentences for one in [unit.text for unit in split(body)])


def test_japanese_is_cut_at_its_own_sentences() -> None:
    said = [f"第{n}条の送料は東京まで無料です。" for n in range(40)]
    fact = "解約は月末の三日前までに書面で申し込まなければなりません。"
    question = Turn(role="user", content="解約はいつまでに申し込みますか。")
    made = run([question], ["".join([*said, fact, *said])], token_budget=300)
    body = made.messages[-1].text.partition("Title 0\n")[2].partition("\n\nQuestion:")[0]
    assert fact in body
    assert {unit.text for unit in split(body)} <= {*said, fact}


def test_segments_marked_to_be_kept_are_whole_and_only_others_shrink() -> None:
    order = "Answer in one word. Do not explain. Never apologise."
    passages = [
        Passage(id="keep", collection="c", document="d", text=order, metadata={"keep": True}),
        Passage(id="cut", collection="c", document="e", text=filler(3000), score=9.0),
    ]
    pinned = Turn(role="user", content="Remember: I am in Norway.", extra={"keep": True})
    messages = [pinned, Turn(role="assistant", content="Noted."), *talk(20), QUESTION]
    request = Compress(messages=messages, passages=passages, token_budget=400)
    made = compress(request, COUNTER, POLICY)
    assert order in made.messages[-1].text
    assert [turn.content for turn in made.messages[1:3]] == [pinned.content, "Noted."]
    assert made.messages[1].extra == {}
    assert made.tokens_after < made.tokens_before
    with pytest.raises(Failed, match="context_overflow"):
        compress(
            Compress(
                messages=[QUESTION],
                passages=[Passage(id="k", collection="c", document="d", text=filler(2000), metadata={"keep": True})],
                context_window=1000,
            ),
            COUNTER,
            POLICY,
        )


def test_selection_does_not_depend_on_where_the_relevant_passage_stands() -> None:
    texts = [f"District {n}: {filler(60)}" for n in range(9)]
    used = set()
    for seed in range(6):
        shuffled = [*texts, FACT]
        random.Random(seed).shuffle(shuffled)
        passages = [Passage(id=text[:12], collection="c", document=text[:12], text=text) for text in shuffled]
        made = compress(Compress(messages=[QUESTION], passages=passages, token_budget=250), COUNTER, POLICY)
        assert FACT in made.messages[-1].text
        used.add(frozenset(made.used))
    assert len(used) == 1
