"""The simulator's pure parts: the prefix cache and the answers."""

import pytest

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.worker.engines import EngineError
from hasten.worker.engines.sim import BLOCK, PrefixCache, after, answer_tokens, until_stop


def _tokens(count: int, mark: str = "t") -> list[str]:
    return [f"{mark}{at}" for at in range(count)]


def test_a_prompt_seen_before_is_cached_but_for_its_last_token() -> None:
    cache = PrefixCache()
    prompt = _tokens(4 * BLOCK)
    assert cache.reuse(prompt) == 0
    assert cache.reuse(prompt) == 4 * BLOCK - 1


def test_only_whole_leading_blocks_are_shared() -> None:
    cache = PrefixCache()
    cache.reuse(_tokens(2 * BLOCK) + _tokens(2 * BLOCK, "a"))
    assert cache.reuse(_tokens(2 * BLOCK + 3) + _tokens(BLOCK, "b")) == 2 * BLOCK
    assert cache.reuse(_tokens(1, "x") + _tokens(2 * BLOCK)) == 0
    assert cache.reuse(_tokens(BLOCK - 1)) == 0


def test_the_cache_is_bounded_and_forgets_the_oldest() -> None:
    cache = PrefixCache(most=4)
    cache.reuse(_tokens(4 * BLOCK, "a"))
    cache.reuse(_tokens(4 * BLOCK, "b"))
    assert cache.reuse(_tokens(4 * BLOCK, "b")) == 4 * BLOCK - 1
    assert cache.reuse(_tokens(4 * BLOCK, "a")) == 0


def test_answers_depend_on_the_whole_prompt_and_on_nothing_else() -> None:
    def answer(text: str, system: str = "s", seed: int | None = None) -> str:
        turns = [Turn(role="system", content=system), Turn(role="user", content=text)]
        return "".join(answer_tokens(Generate(messages=turns, seed=seed), ""))

    question = "how much is the yearly plan for one person"
    assert answer(question) == answer(question)
    assert len({answer(question), answer(question, system="other"), answer(question, seed=1)}) == 3
    assert set(answer(question).rstrip(".").split()) <= set(question.split())


def test_an_answer_goes_on_anywhere_in_its_text() -> None:
    tokens = [" two", " words", " here"]
    text = "".join(tokens)
    for at in range(len(text) + 1):
        assert text[:at] + "".join(after(tokens, text[:at])) == text
    with pytest.raises(EngineError):
        after(tokens, "other")


def test_the_first_stop_sequence_ends_the_answer() -> None:
    assert "".join(until_stop(["one", " two", " three"], ["three", " tw"])) == "one"
    assert until_stop(["one"], [""]) == ["one"]
