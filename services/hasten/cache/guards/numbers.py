"""Quantities: 17%, 17 percent and 0.17 are one; 14 days and two weeks are one; 14 days and 40 days are not."""

import re
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from hasten.cache.guards.measures import NUMBER_WORDS, SCALES, UNITS
from hasten.cache.guards.tokens import Word
from hasten.cache.guards.wording import NEUTRAL, words

_WRITTEN = re.compile(
    r"(?P<sign>[-−]?)(?P<currency>[$£€¥]?)(?P<digits>\d[\d.,\u00a0]*)\s?(?P<ending>%|st|nd|rd|th)?", re.I
)
_LISTING = frozenset({"and", "or", "plus", "times"})
_BEFORE_SUBJECT = words(
    "as if when while can could may might should would will shall must do does did that how what whether before"
)
_CLOCK = re.compile(r"(\d{1,2})(?:[:.](\d{2}))?\s?(am|pm)?", re.I)


class Quantity(msgspec.Struct, frozen=True, order=True):
    """A value in the base unit of its `kind` (empty: a bare number). `digits` are those of a bare number as written,
    because version 3.1 is not version 3.10."""

    value: Decimal
    kind: str = ""
    digits: str = ""


class Span(msgspec.Struct, frozen=True):
    """Where among the words a quantity stands, `start` to before `end`; `listed` if only `and` or the like joins it to
    the one before it."""

    start: int
    end: int
    quantity: Quantity
    listed: bool = False


def spans(words: Sequence[Word]) -> list[Span]:
    """The quantities among the words, in order."""
    made: list[Span] = []
    at = 0
    while at < len(words):
        found = _quantity(words, at)
        if found is None:
            at += 1
        else:
            made.append(_joined(words, made[-1], found) if made else found)
            at = found.end
    return made


def differ(left: list[Quantity], right: list[Quantity]) -> bool:
    """Whether these are not the same quantities, in whatever order."""
    return len(left) != len(right) or not all(map(_same, sorted(left), sorted(right)))


def conflict(left: list[Quantity], right: list[Quantity]) -> bool:
    """Whether each side has a quantity that the other has not, of the same kind or one of them a bare number; unless
    they have another of that kind in common: 3 years here, 8 years there, but both speak of 7 weeks."""
    shared = {one.kind for one in left if one.kind and any(_same(one, other) for other in right)}
    ours = {one.kind for one in left if not any(_same(one, other) for other in right)} - shared
    theirs = {one.kind for one in right if not any(_same(one, other) for other in left)} - shared
    return bool(ours & theirs) or bool("" in ours | theirs and ours and theirs)


def reordered(left: list[Span], right: list[Span]) -> bool:
    """Whether these same quantities stand in another order (7 minus 3), unless both texts only list them."""
    if all(_same(ours.quantity, theirs.quantity) for ours, theirs in zip(left, right, strict=True)):
        return False
    return not all(span.listed for span in (*left[1:], *right[1:]))


def _joined(words: Sequence[Word], before: Span, span: Span) -> Span:
    """The span, `listed` if it follows the one before it in a list and no noun follows that it alone counts."""
    between = [word.lower for word in words[before.end : span.start]]
    listed = len(between) == 1 and between[0] in _LISTING and not _noun(words, span.end)
    return Span(span.start, span.end, span.quantity, listed)


def _same(left: Quantity, right: Quantity) -> bool:
    alike = left.digits == right.digits or not left.digits or not right.digits
    return alike and left.value == right.value and left.kind == right.kind


def _quantity(words: Sequence[Word], at: int) -> Span | None:
    word = words[at]
    if word.kind == "number":
        quantity, end = _written(word.lower), at + 1
    elif word.kind == "word" and word.lower in NUMBER_WORDS:
        quantity, end = _spelt(words, at)
    else:
        return None
    if quantity is None:
        return None
    while not quantity.kind and end < len(words) and (unit := _unit(words[end])):
        quantity, end = Quantity(quantity.value * Decimal(unit[1]), unit[0]), end + 1
    return Span(at, end, quantity)


def _unit(word: Word) -> tuple[str, str] | None:
    if word.kind != "word":
        return None
    return UNITS.get(word.lower) or UNITS.get(word.lower.removesuffix("s"))


def _written(text: str) -> Quantity | None:
    if text[-1] == "m" or ":" in text:
        return _clock(text)
    found = _WRITTEN.match(text)
    if found is None:
        return None
    digits = _plain(found["digits"])
    value = Decimal(f"-{digits}" if found["sign"] else digits)
    unit = UNITS.get(found["currency"] or found["ending"] or "")
    return Quantity(value * Decimal(unit[1]), unit[0]) if unit else Quantity(value, "", digits)


def _plain(digits: str) -> str:
    """`2,340` and `1.234.567,5` without their separators of thousands."""
    digits = digits.replace("\u00a0", "").rstrip(".,")
    last = max(digits.rfind("."), digits.rfind(","))
    if last < 0:
        return digits
    whole, mark, tail = re.sub(r"[.,]", "", digits[:last]), digits[last], digits[last + 1 :]
    grouped = digits.count(mark) > 1 or (mark == "," and len(tail) == 3)
    return whole + tail if grouped else f"{whole}.{tail}"


def _clock(text: str) -> Quantity | None:
    found = _CLOCK.match(text)
    if found is None:
        return None
    hour, minute, half = int(found[1]), int(found[2] or 0), (found[3] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return Quantity(Decimal(hour * 60 + minute), "clock")


def _spelt(words: Sequence[Word], at: int) -> tuple[Quantity | None, int]:
    """`twenty-five`, `two hundred and ten`. A `one` without a noun, or in the place of a subject, is a pronoun."""
    if words[at].lower == "one" and (not _noun(words, at + 1) or _subject(words, at)):
        return None, at
    total = current = Decimal(0)
    end = at
    while end < len(words):
        lower = words[end].lower
        if lower in NUMBER_WORDS:
            current += Decimal(NUMBER_WORDS[lower])
        elif lower in SCALES and current:
            total, current = total + current * SCALES[lower], Decimal(0)
        elif not (lower == "and" and total and end + 1 < len(words) and words[end + 1].lower in NUMBER_WORDS):
            break
        end += 1
    return Quantity(total + current), end


def _subject(words: Sequence[Word], at: int) -> bool:
    """Whether the word at `at` is somebody who does something: `should one avoid`, `as one ages`."""
    return at > 0 and words[at - 1].lower in _BEFORE_SUBJECT


def _noun(words: Sequence[Word], at: int) -> bool:
    return at < len(words) and words[at].kind == "word" and words[at].lower not in NEUTRAL
