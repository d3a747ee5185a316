"""What every engine must do with a request, asked of each: the simulator, llama.cpp in process, and llama.cpp's server.

Under `make test-vllm` the same is asked of vLLM in process.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_rig import WINDOW, Kind, asked, refused, text, whole

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import SMALL, EngineConfig, Model
from hasten.settings import SettingsError
from hasten.weights import WeightsMissing, folder
from hasten.worker.engines import Engine, EngineError, engine_class

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_deltas_come_one_by_one_and_end_with_usage(engine: Engine) -> None:
    deltas, end = await whole(engine.generate("acme/r", asked()))
    assert len(deltas) > 3
    assert all(delta.text for delta in deltas)
    assert end.usage.prompt_tokens > 0
    assert 0 < end.usage.completion_tokens <= 12
    assert 0 <= end.usage.cached_tokens < end.usage.prompt_tokens


async def test_how_probable_the_tokens_were_is_told_when_it_is_asked_for(kind: Kind, engine: Engine) -> None:
    deltas, end = await whole(engine.generate("acme/r", asked(confidence_after=4)))
    told = [one for delta in deltas for one in delta.logprobs]
    assert all(one <= 0 for one in told)
    assert min(told) < 0 or kind.name == "sim", "the simulator knows it by a setting"
    assert len(told) == end.usage.completion_tokens
    deltas, _ = await whole(engine.generate("acme/r", asked()))
    assert not any(delta.logprobs for delta in deltas)


async def test_max_tokens_ends_with_length(engine: Engine) -> None:
    _, end = await whole(engine.generate("acme/r", asked(max_tokens=5)))
    assert end.finish_reason == "length"
    assert end.usage.completion_tokens == 5


async def test_more_tokens_than_there_are_is_no_limit(engine: Engine) -> None:
    begun = await text(engine, asked(max_tokens=6))
    for limit in (WINDOW, 10**18):
        deltas, end = await whole(engine.generate("acme/r", asked(max_tokens=limit)))
        assert end.finish_reason == "stop"
        assert "".join(delta.text for delta in deltas).startswith(begun)


async def test_a_stop_sequence_ends_before_itself(engine: Engine) -> None:
    whole_answer = await text(engine, asked())
    stop = whole_answer.split()[3]
    deltas, end = await whole(engine.generate("acme/r", asked(stop=[stop])))
    said = "".join(delta.text for delta in deltas)
    assert end.finish_reason == "stop"
    assert stop not in said
    assert whole_answer.startswith(said)


async def test_greedy_decoding_says_the_same_again(engine: Engine) -> None:
    assert await text(engine, asked()) == await text(engine, asked())


async def test_a_seed_says_the_same_again(engine: Engine) -> None:
    request = asked(temperature=1.0, seed=11)
    assert await text(engine, request) == await text(engine, request)


async def test_a_prompt_seen_before_is_cached_for_who_has_asked_it(kind: Kind, engine: Engine) -> None:
    request = asked("Colours, colours, colours. " * 40)
    await text(engine, request)
    _, end = await whole(engine.generate("acme/r", request))
    assert end.usage.cached_tokens > end.usage.prompt_tokens // 2
    if kind.name == "vllm":
        _, end = await whole(engine.generate("other/r", request))
        assert end.usage.cached_tokens == 0


async def test_no_character_is_ever_cut(engine: Engine) -> None:
    for tokens in (1, 2, 3, 5, 8, 13):
        question = "Repeat this: \U0001f600\U0001f389日本語 नमस्ते \U0001f469\u200d\U0001f467"
        deltas, _ = await whole(engine.generate("acme/r", asked(question, max_tokens=tokens)))
        for delta in deltas:
            assert "\ufffd" not in delta.text
            delta.text.encode()


@pytest.mark.parametrize("wanted", ["\U0001f600\U0001f389日本語 नमस्ते", "\U0001f469\u200d\U0001f467 日本"])
async def test_characters_of_several_tokens_come_whole(kind: Kind, engine: Engine, wanted: str) -> None:
    if kind.name == "sim":
        pytest.skip("the simulator has words for tokens")
    form = {"type": "json_schema", "json_schema": {"name": "it", "schema": {"type": "string", "enum": [wanted]}}}
    deltas, end = await whole(engine.generate("acme/r", asked(max_tokens=120, response_format=form)))
    said = "".join(delta.text for delta in deltas)
    assert msgspec.json.decode(said) == wanted
    assert "\ufffd" not in said
    if wanted in said:
        assert len(deltas) < end.usage.completion_tokens


async def test_an_answer_goes_on_where_it_was_left(engine: Engine) -> None:
    assert engine.continues
    question = "Count from one to ten in words."
    deltas, _ = await whole(engine.generate("acme/r", asked(question, max_tokens=24)))
    said = "".join(delta.text for delta in deltas)
    for keep in (1, len(deltas) // 2, len(deltas) - 1):
        begun = "".join(delta.text for delta in deltas[:keep])
        request = asked(question, max_tokens=24 - keep, continues=begun)
        assert begun + await text(engine, request) == said


async def test_every_role_is_understood(engine: Engine) -> None:
    turns = [
        Turn(role="user", content="hi"),
        Turn(role="developer", content="Use metric units."),
        Turn(role="assistant", content="Hello."),
        Turn(role="user", content=[{"type": "text", "text": "how tall is it?"}]),
    ]
    _, end = await whole(engine.generate("acme/r", Generate(messages=turns, max_tokens=3, temperature=0.0)))
    assert end.usage.completion_tokens == 3


async def test_generations_in_all_slots_are_kept_apart(engine: Engine) -> None:
    both = [asked(f"Say the number {word} again and again.") for word in ("seven", "nine")]
    alone = [await text(engine, one) for one in both]
    at_once = await asyncio.gather(*(text(engine, one, f"acme/{at}") for at, one in enumerate(both)))
    assert at_once[0] != at_once[1]
    assert [said[:4] for said in at_once] == [said[:4] for said in alone]


async def test_a_prompt_beyond_the_window_is_named_as_such(engine: Engine) -> None:
    error = await refused(engine, asked("word " * (WINDOW + 200)))
    assert error.code == "context_overflow"
    assert str(WINDOW) in error.detail
    assert "word" not in error.detail
    assert await text(engine, asked())


async def test_an_option_that_makes_no_sense_is_the_callers_fault(kind: Kind, engine: Engine) -> None:
    if kind.name == "sim":
        pytest.skip("the simulator has no options")
    bad: list[dict[str, Any]] = [
        {"extra": kind.grammar},
        {"response_format": {"type": "nonsense"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}},
    ]
    for options in bad:
        error = await refused(engine, asked(**options))
        assert error.code == "bad_request"
        assert "nonsense" not in error.detail
        assert await text(engine, asked())


async def test_options_we_do_not_know_reach_the_engine_or_are_left_out(engine: Engine) -> None:
    extra = {"top_k": 1, "no_such_option": {"x": 1}, "stream": False, "id_slot": 99, "n": 3}
    assert await text(engine, asked(extra=extra))


async def test_a_missing_or_broken_model_file_is_one_sentence(tmp_path: Path) -> None:
    model = Model(name="llama", slug="llama", engine=EngineConfig(kind="llama", path=SMALL.engine.path))
    llama = engine_class("llama").from_config(model, tmp_path)
    with pytest.raises(WeightsMissing, match="run `hasten models fetch`"):
        await llama.start()
    await llama.close()
    folder(tmp_path).mkdir()
    (folder(tmp_path) / SMALL.engine.path).write_bytes(b"GGUF nothing of the kind")
    llama = engine_class("llama").from_config(model, tmp_path)
    with pytest.raises(SettingsError, match="cannot load"):
        await llama.start()
    await llama.close()


async def test_vllm_without_its_extra_or_its_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    vllm = engine_class("vllm")
    with pytest.raises(SettingsError, match="needs a path to a checkpoint"):
        vllm.from_config(Model(name="v", engine=EngineConfig(kind="vllm")), tmp_path)
    with pytest.raises(SettingsError, match="has no checkpoint in"):
        vllm.from_config(Model(name="v", engine=EngineConfig(kind="vllm", path=str(tmp_path / "none"))), tmp_path)
    engine = vllm.from_config(Model(name="v", engine=EngineConfig(kind="vllm", path=str(tmp_path))), tmp_path)
    with pytest.raises((ImportError, SettingsError), match=r"pip install 'hasten\[vllm\]'|vLLM cannot load"):
        await engine.start()
    with pytest.raises(EngineError, match="not running"):
        await text(engine, asked())
    await engine.close()
