"""How hard a request is: rules first, then an estimate learnt from questions that a small model failed; pure.

The score is a rank: 0.7 means that 70% of the questions which the estimate was made from gain less by a strong model.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hasten.router.estimator import Estimator, Guess, shipped
from hasten.router.rules import FIRM, HINTS, Rule, asked, first
from hasten.router.surface import FEATURES, surface

UNKNOWN = 0.3
"""The score of a text of which nothing is known: a small model is tried first."""
_TELLING = 5
"""How many features a decision reports."""
_LITTLE = 0.003
"""A part of the gain that is not worth a word."""
_NEAR_FAILURES = "near questions on which a small model fails"
_NEAR_SUCCESSES = "near questions on which a better model gains little"
_UNLIKE = "unlike the questions that difficulties are known of"
_ORDINARY = "nothing special about it"
_BLIND = "no vector to tell its kind by"


class Difficulty(NamedTuple):
    """`score` is 0 (any model will do) to 1; not `known` is that of a text of a kind that nothing was measured of, to
    which no rule applies either.

    `features` are named numbers: `gain` is by how much more often a strong model is guessed to be right, `meaning` and
    the features of the surface what each of them adds to that; `rule_` and the name of a rule go with the change that
    it made to the score. `why` is the reason in words. Of models that are good enough those with the capabilities
    `prefers` go first.
    """

    score: float
    features: dict[str, float]
    why: str
    known: bool = True
    prefers: tuple[str, ...] = ()


def estimate(
    text: str,
    vector: bytes | None = None,
    turns: int = 1,
    needs: Sequence[str] = (),
    prompt_tokens: int = 0,
    estimator: Estimator | None = None,
) -> Difficulty:
    """The difficulty of the last user turn `text`, whose vector is `vector`, in a conversation of `turns` turns.

    Without a vector the score goes by the words alone and is known only where a rule holds. `estimator` replaces the
    one of this package.
    """
    question = asked(text, needs, prompt_tokens, turns)
    guess = (estimator or shipped()).guess(vector, surface(text))
    rule = first(FIRM, question) or (None if guess.familiar else first(HINTS, question))
    base = guess.score if guess.familiar or (vector is None and rule is None) else UNKNOWN
    score = rule.bound(base) if rule else base
    return Difficulty(
        score=round(score, 3),
        features=_features(guess, rule, score - base),
        why=_why(guess, rule, vector is None, score),
        known=guess.familiar or rule is not None,
        prefers=rule.prefers if rule else (),
    )


def _features(guess: Guess, rule: Rule | None, moved: float) -> dict[str, float]:
    named = {f"rule_{rule.name}": round(moved, 3)} if rule else {}
    if not guess.familiar:
        return named
    largest = sorted(guess.parts, key=lambda name: -abs(guess.parts[name]))[:_TELLING]
    return {**named, "gain": round(guess.gain, 3), **{name: round(guess.parts[name], 3) for name in largest}}


def _why(guess: Guess, rule: Rule | None, blind: bool, score: float) -> str:
    said = [rule.says] if rule else []
    if guess.familiar:
        said += _telling(guess, up=score >= 0.5)
    elif rule is None:
        said.append(_BLIND if blind else _UNLIKE)
    return ", ".join(dict.fromkeys(said)) or _ORDINARY


def _telling(guess: Guess, up: bool) -> list[str]:
    """The three things, at most, that moved the guess most in the direction in which it went."""
    pulls = {name: part if up else -part for name, part in guess.parts.items()}
    order = sorted(pulls, key=lambda name: -pulls[name])[:3]
    return [_says(name, guess) for name in order if pulls[name] > max(_LITTLE, pulls[order[0]] / 4)]


def _says(name: str, guess: Guess) -> str:
    if name == "meaning":
        return _NEAR_FAILURES if guess.parts[name] > 0 else _NEAR_SUCCESSES
    return FEATURES[name].more if guess.form[name] > 0 else FEATURES[name].less
