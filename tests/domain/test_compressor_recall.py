"""What of left-out rounds comes back with the last turn: verbatim, about the question, within its tokens, in order."""

from hypothesis import given
from hypothesis import strategies as st

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.domain import compress
from hasten.compressor.recall import choose, cost, sentences, text
from hasten.compressor.settings import Settings
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress, Compressed

COUNTER = ByteEstimate()
POLICY = Settings().policy()
ORDER = Turn(role="user", content="My order number is KX-440B. I paid 12.50 euros for it.")


def rounds(*texts: str) -> list[list[Turn]]:
    return [[Turn(role="user", content=said), Turn(role="assistant", content="I see.")] for said in texts]


def small_talk(count: int) -> list[Turn]:
    said = (
        f"In town {at} the weather was pleasant and the streets were full of people all day." for at in range(count)
    )
    return [
        turn for text in said for turn in (Turn(role="user", content=text), Turn(role="assistant", content="Nice."))
    ]


def run(messages: list[Turn], budget: int = 400, **options: float) -> Compressed:
    policy = Settings(**options).policy() if options else POLICY  # type: ignore[arg-type]
    return compress(Compress(messages=messages, token_budget=budget), COUNTER, policy)


def test_the_sentences_about_the_question_are_found_and_the_others_are_not() -> None:
    said = sentences(rounds("The fee is 9 euros. Dogs bark.", "Cats sleep.", "It rained in Bergen."), COUNTER)
    chosen = choose(said, "How high is the fee?", 15)
    assert [said[at].text for at in chosen] == ["The fee is 9 euros."]
    assert choose(said, "Tell me about submarines", 100) == []
    assert choose(said, "", 100) == []
    assert choose([], "fee", 100) == []


def test_what_was_said_near_the_words_of_the_question_counts() -> None:
    far = ["Nothing at all happened."] * 12
    said = sentences(rounds("Shall we talk about the budget?", "It is 400.", *far, "It is 500."), COUNTER)
    chosen = [said[at].text for at in choose(said, "What was the budget?", 60)]
    assert "It is 400." in chosen
    assert "It is 500." not in chosen


def test_it_comes_before_the_users_words_with_who_said_it_and_the_beginning_stays() -> None:
    talk = [*small_talk(6), ORDER, Turn(role="assistant", content="Thank you."), *small_talk(20)]
    question = Turn(role="user", content="What was my order number?")
    made = run([*talk, question])
    last = made.messages[-1].text
    assert last.startswith(f"{Settings().earlier}\n")
    assert "User: My order number is KX-440B." in last
    assert last.endswith(f"\n\n{Settings().question}{question.text}")
    assert made.tokens_after <= 400
    other = run([*talk, Turn(role="user", content="Which zebra?")])
    assert other.messages[-1].text == "Which zebra?"
    assert other.messages[:-1] == made.messages[:-1]
    without = run([*talk, question], recall_share=0.0)
    assert without.messages[-1] == question
    (part,) = [part for part in made.parts if part.kind == "history"]
    assert "of their sentences" in part.why


def test_the_first_round_stays_while_it_is_small() -> None:
    opening = [Turn(role="user", content="I want to cancel Flickbox."), Turn(role="assistant", content="Of course.")]
    made = run([*opening, *small_talk(30), Turn(role="user", content="Do it then.")])
    assert made.messages[:2] == opening
    assert len(made.messages) < 30
    long = [Turn(role="user", content=opening[0].text * 30), opening[1]]
    assert opening[1] not in run([*long, *small_talk(30), Turn(role="user", content="Do it then.")]).messages


SAID = st.lists(
    st.sampled_from(["The fee is 9.", "Yes.", "解約は月末です。", "Dogs bark loudly.", '{"a": [1]}']), max_size=9
)


@given(
    st.lists(SAID.map(" ".join), max_size=9),
    st.sampled_from(["What is the fee?", "解約?", "dogs", ""]),
    st.integers(0, 90),
)
def test_within_its_tokens_in_order_and_verbatim(texts: list[str], question: str, room: int) -> None:
    said = sentences(rounds(*texts), COUNTER)
    chosen = choose(said, question, room)
    assert chosen == sorted(set(chosen))
    assert cost([said[at] for at in chosen]) <= room
    more = choose(said, question, 2 * room)
    assert cost([said[at] for at in more]) >= cost([said[at] for at in chosen])
    for line in text([said[at] for at in chosen]).splitlines():
        assert line.startswith(("User: ", "Assistant: "))
        assert all(one.text in " ".join(texts) or one.text == "I see." for one in said)
