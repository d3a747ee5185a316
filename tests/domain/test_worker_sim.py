"""The simulator's pure parts: the prefix cache and the answers."""

import pytest

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import EngineConfig
from hasten.worker.engines import EngineError
from hasten.worker.engines.prefix_cache import BLOCK, PrefixCache, blocks_of, decode_s, prefill_s
from hasten.worker.engines.sim import after, answer_tokens, until_stop


def _tokens(count: int, mark: str = "t") -> list[str]:
    return [f"{mark}{at}" for at in range(count)]


def test_a_prompt_is_known_once_it_has_been_computed() -> None:
    cache, prompt = PrefixCache(most=100), blocks_of(_tokens(4 * BLOCK))
    assert cache.known(prompt) == 0
    assert cache.known(prompt) == 0, "asking does not compute it"
    cache.remember(prompt)
    assert cache.known(prompt) == 4


def test_only_whole_leading_blocks_are_shared() -> None:
    cache = PrefixCache(most=100)
    cache.remember(blocks_of(_tokens(2 * BLOCK) + _tokens(2 * BLOCK, "a")))
    assert cache.known(blocks_of(_tokens(2 * BLOCK + 3) + _tokens(BLOCK, "b"))) == 2
    assert cache.known(blocks_of(_tokens(1, "x") + _tokens(2 * BLOCK))) == 0
    assert blocks_of(_tokens(BLOCK - 1)) == []


def test_the_cache_is_bounded_and_forgets_the_ends_of_the_least_used() -> None:
    cache = PrefixCache(most=6)
    one, two = blocks_of(_tokens(4 * BLOCK, "a")), blocks_of(_tokens(4 * BLOCK, "b"))
    cache.remember(one)
    cache.remember(two)
    assert (cache.known(one), cache.known(two)) == (2, 4)


def test_what_is_used_stays() -> None:
    cache = PrefixCache(most=8)
    one, two = blocks_of(_tokens(4 * BLOCK, "a")), blocks_of(_tokens(4 * BLOCK, "b"))
    cache.remember(one)
    cache.remember(two)
    assert cache.known(one) == 4
    cache.remember(blocks_of(_tokens(4 * BLOCK, "c")))
    assert (cache.known(one), cache.known(two)) == (4, 0)


def test_only_what_is_not_cached_takes_time() -> None:
    config = EngineConfig(kind="sim", sim_network_ms=50, sim_prefill_per_s=1000, sim_decode_per_s=100)
    assert prefill_s(config, 2000, 0) == pytest.approx(2.05)
    assert prefill_s(config, 2000, 1500) == pytest.approx(0.55)
    assert decode_s(config, 30) == pytest.approx(0.3)


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
