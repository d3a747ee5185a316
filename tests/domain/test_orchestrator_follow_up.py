"""What is searched for: a question that stands alone by itself, a follow-up with what it leans on."""

import pytest

from hasten.messages.chat import Turn, parse_chat
from hasten.orchestrator.domain import plan_of
from hasten.orchestrator.follow_up import EARLIER_CHARS, MAX_TURNS, goes_on, leans, retrieval_query

ORKA = "What does a filter swap cost for the Orka dishwasher?"


def query(*said: str) -> str:
    """The query for turns of the user and the assistant, in turn."""
    return retrieval_query([Turn(role="assistant" if at % 2 else "user", content=text) for at, text in enumerate(said)])


@pytest.mark.parametrize(
    "follow_up",
    [
        "And a new pump?",
        "and what would the pump in the basement of the shop cost me?",
        "how much is postage for it?",
        "Ok, so how long will that repair take?",
        "Can I return it?",
        "How much does it cost per extra visit?",
        "what will I pay?",
        "Is the other one cheaper?",
        "I would like to have that one delivered to the second floor instead, please",
        "when would it be done then?",
    ],
)
def test_a_follow_up_is_searched_with_the_turn_that_it_leans_on(follow_up: str) -> None:
    assert query(ORKA, "It costs 40 euro.", follow_up) == f"{ORKA}\n{follow_up}"


@pytest.mark.parametrize(
    "independent",
    [
        "What are your opening hours?",
        "Do you deliver to Norway?",
        "Is there free wifi on your flights?",
        "How long does it take to renew a passport in Norway?",
        "Are your tickets mobile only, or can I print them?",
        "Who was the first president of France?",
        "Does PulseFit offer a free trial?",
        "Wann haben die Geschäfte in Bergen am Sonntag geöffnet?",
        "ベルゲンの店舗の営業時間を教えてください",
    ],
)
def test_a_new_topic_is_not_mixed_with_the_old_one(independent: str) -> None:
    assert query(ORKA, "It costs 40 euro.", independent) == independent


def test_a_chain_of_follow_ups_goes_back_to_where_it_began_and_no_further() -> None:
    said = ("Do you deliver to Norway?", "Yes.", ORKA, "40 euro.", "And a new pump?", "80 euro.", "And for the Lyra?")
    assert query(*said).split("\n") == [ORKA, "And a new pump?", "And for the Lyra?"]
    changed = (*said, "60 euro.", "Who was the first president of France?", "Bonaparte.", "when did he die?")
    assert query(*changed).split("\n") == ["Who was the first president of France?", "when did he die?"]


def test_a_long_chain_keeps_its_beginning_and_its_latest_turns() -> None:
    more = [text for number in range(30) for text in ("Yes.", f"And part {number}?")]
    kept = query(ORKA, *more).split("\n")
    assert kept[0] == ORKA
    assert kept[1:] == [f"And part {number}?" for number in range(30 - MAX_TURNS, 30)]


def test_what_takes_up_an_offer_is_searched_with_the_offer() -> None:
    offer = "A swap costs 40 euro. Would you like to book the swap or a visit of our technician?"
    for assent in ("yes please", "Ok, go ahead.", "the second one", "👍", "how much is it?"):
        assert query(ORKA, offer, assent).split("\n") == [
            ORKA,
            "Would you like to book the swap or a visit of our technician?",
            assent,
        ]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("Was kostet ein neuer Filter für den Orka?", "Und eine neue Pumpe?"),
        ("Combien coûte un filtre pour le lave-vaisselle Orka ?", "Et une nouvelle pompe ?"),
        ("¿Cuánto cuesta el filtro del lavavajillas Orka?", "Y una bomba nueva"),
        ("オルカ食洗機のフィルター交換はいくらですか？", "新しいポンプは？"),
        ("Orka洗碗机换滤芯多少钱？", "那么新的水泵呢？"),
    ],
)
def test_other_languages_by_the_words_that_go_on_or_by_length(first: str, then: str) -> None:
    assert query(first, "40", then) == f"{first}\n{then}"


def test_the_question_is_whole_and_what_it_leans_on_is_bounded() -> None:
    told = f"{'we bought it last spring and ' * 400}now what does a filter for the Orka cost?"
    found = query(told, "40", "And a new pump?")
    assert found.endswith("filter for the Orka cost?\nAnd a new pump?")
    assert len(found) <= EARLIER_CHARS + len("\nAnd a new pump?")
    long_question = " ".join(f"word{number}" for number in range(500))
    assert query(ORKA, "40", long_question) == long_question


def test_without_an_earlier_turn_there_is_nothing_to_lean_on() -> None:
    assert query("And a new pump?") == "And a new pump?"
    assert retrieval_query([Turn(role="system", content="Be brief.")]) == ""
    assert leans("")
    assert leans("yes please")


@pytest.mark.parametrize(
    "bare", ["And a new pump?", "what about the Lyra?", "Und eine neue Pumpe?", "那么新的水泵呢？"]
)
def test_a_bare_follow_up_is_neither_found_nor_stored_by_meaning(bare: str) -> None:
    """Whoever sends it without its conversation asks something that only its own key may answer."""
    plan = plan_of(parse_chat({"messages": [{"role": "user", "content": bare}], "knowledge": ["help"]}))
    assert (plan.read_semantic, plan.searchable) == (False, False)
    assert (plan.read_exact, plan.store, plan.query) == (True, True, bare)
    turns = [
        {"role": "user", "content": ORKA},
        {"role": "assistant", "content": "40"},
        {"role": "user", "content": bare},
    ]
    within = plan_of(parse_chat({"messages": turns, "knowledge": ["help"]}))
    assert (within.read_semantic, within.searchable, within.query) == (False, False, f"{ORKA}\n{bare}")


@pytest.mark.parametrize("question", ["Android phones: how do I reset one?", "Orders and returns: who pays?", ORKA])
def test_a_question_that_only_looks_like_one_is_found_by_meaning(question: str) -> None:
    assert not goes_on(question)
    assert plan_of(parse_chat({"messages": [{"role": "user", "content": question}]})).read_semantic


def test_a_lone_question_is_embedded_as_the_cache_reads_it() -> None:
    """One text, and so one vector, for the lookup by meaning, the retriever and the router."""
    for text in (ORKA, "how much?", "What is the fee?"):
        plan = plan_of(parse_chat({"messages": [{"role": "user", "content": text}], "knowledge": ["help"]}))
        assert plan.read_semantic
        assert plan.query == plan.fingerprint.text


@pytest.mark.parametrize(
    "said", ["it cost " * 200 + "to", "and " + "x" * 2000, "ok " * 1000 + "and?", "that one" + " " * 2000 + "!"]
)
def test_a_long_turn_stands_alone_and_is_not_read_to_its_end(said: str) -> None:
    """Looking for its subject took minutes for a megabyte of `it cost`, on the loop that serves everybody."""
    assert not leans(said)
    assert query(ORKA, "It costs 40 euro.", said) == said
    assert not goes_on(said)
