"""How the guards read a question: quantities, what is true for a moment only, slips of the keyboard, stems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.cache.guards import Reading, refuses
from hasten.cache.guards.content import slip
from hasten.cache.guards.moment import passing
from hasten.cache.guards.stems import stem


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("17%", "0.17"),
        ("17 %", "17 percent"),
        ("2,340", "2340"),
        ("1,234,567", "1234567"),
        ("14 days", "two weeks"),
        ("90 minutes", "1.5 hours"),
        ("1 kg", "1000 g"),
        ("$5", "5 dollars"),
        ("2pm", "14:00"),
        ("twenty-five", "25"),
        ("two hundred and ten", "210"),
        ("3 thousand", "3,000"),
        ("2 years", "24 months"),
        ("half", "0.5"),
        ("1st", "first"),
    ],
)
def test_a_quantity_is_the_same_however_it_is_written(one: str, other: str) -> None:
    assert refuses(f"Is {one} enough for everybody here?", f"Is {other} enough for everybody here?") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("17%", "17"),
        ("3.1", "3.10"),
        ("007", "7"),
        ("5 kg", "5 g"),
        ("-5", "5"),
        ("$5", "€5"),
        ("2am", "2pm"),
        ("1.234", "1,234"),
        ("first", "second"),
        ("one day", "two days"),
        ("9007199254740993", "9007199254740992"),
    ],
)
def test_quantities_that_differ_are_told_apart(one: str, other: str) -> None:
    assert refuses(f"Is {one} enough for everybody here?", f"Is {other} enough for everybody here?") is not None


@pytest.mark.parametrize(
    "text",
    [
        "What is my balance?",
        "Where is my order?",
        "Has my top-up gone through?",
        "Did I pay the invoice?",
        "When will my refund arrive?",
        "Why was my payment declined?",
        "What was my bill in January?",
        "How much do I owe?",
        "Are you open today?",
        "What is the latest version?",
        "What's the weather in Oslo?",
        "Which trains run right now?",
        "What happened last night?",
        "Where are our bookings?",
        "Am I late with the rent?",
        "What is the balance of my savings account?",
        "Hello, can you please tell me what the current balance of my savings account is?",
        "I ordered boots last week and paid by card, where is my parcel and when will it arrive?",
        "Is the branch on High Street open today or do I have to wait until the bank holiday is over?",
    ],
)
def test_what_is_true_for_one_person_or_one_moment_is_known(text: str) -> None:
    assert passing(Reading(text))


@pytest.mark.parametrize(
    "text",
    [
        "How do I reset my password?",
        "How do I see the balance of my account?",
        "I lost my card on a trip to Spain yesterday, how do I get a new one sent to my hotel?",
        "Can I change my delivery address?",
        "How do I cancel my order?",
        "What does the plan cost?",
        "Why won't my laptop connect to the printer?",
        "Who founded the company?",
        "How long is the return period?",
        "Can I get a copy of my bill?",
        "Do I need a visa for Spain?",
        "When does the branch open?",
        "What vaccines does a puppy need?",
        "How do I know who called?",
    ],
)
def test_what_is_true_for_everybody_is_not_called_passing(text: str) -> None:
    assert not passing(Reading(text))


@pytest.mark.parametrize(
    ("one", "other"), [("cancel", "cancle"), ("connection", "conection"), ("statement", "statment"), ("child", "chlid")]
)
def test_a_slip_of_the_keyboard(one: str, other: str) -> None:
    assert slip(one, other)
    assert slip(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("employer", "employee"),
        ("county", "country"),
        ("trial", "trail"),
        ("hypotension", "hypertension"),
        ("public", "publish"),
        ("form", "from"),
        ("active", "inactive"),
        ("device", "devise"),
        ("prescribe", "proscribe"),
        ("statement", "statements"),
        ("", "a"),
    ],
)
def test_another_word_is_no_slip(one: str, other: str) -> None:
    assert not slip(one, other)
    assert not slip(other, one)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cancel cancels cancelled cancelling", "cancel"),
        ("policy policies", "policy"),
        ("charge charges charged charging", "charg"),
        ("stop stopped stopping stops", "stop"),
        ("address addresses", "addres"),
        ("bus", "bus"),
        ("price prices pricing", "pric"),
    ],
)
def test_stems(words: str, expected: str) -> None:
    assert {stem(word) for word in words.split()} == {expected}


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40))
def test_stems_never_raise_and_never_grow(word: str) -> None:
    assert len(stem(word)) <= max(len(word), 1)


@pytest.mark.parametrize(
    "piece",
    [
        "'",
        '"',
        "a.",
        "1,",
        "`",
        "a-",
        "-1-",
        "http://",
        "a@",
        "/.",
        "x'",
        "é",
        "not ",
        "Oslo ",
        "one hundred ",
        "!",
        "<",
        "-a ",
        "1/2/",
        "/",
        "--",
        "👍",
        "°",
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    """A regular expression that backtracks would take minutes here."""
    text = piece * (20_000 // len(piece))
    assert refuses(text, text) is None
