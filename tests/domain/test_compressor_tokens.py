"""Counting: with a tokenizer's own files and template, and without them on the safe side."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.domain import compress
from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.compressor.remembered import Remembered
from hasten.compressor.settings import Settings
from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Passage

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HELLO = Turn(role="user", content="hello")
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f"}}]


def byte_tokenizer(folder: Path, template: str | None = CHATML, **config: Any) -> Path:
    """Files of a tokenizer for which every byte is a token, beside the control tokens of ChatML."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = {byte: at for at, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken(token, special=True) for token in ("<|im_start|>", "<|im_end|>", "<file>")])
    made.save(str(folder / "tokenizer.json"))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def counter(tmp_path: Path) -> HfTokenizer:
    return HfTokenizer(byte_tokenizer(tmp_path / "bytes"), part_tokens=100)


def test_texts_are_counted_by_themselves(counter: HfTokenizer) -> None:
    assert counter.counts(["hello", "", "é", "<|im_end|>", "hello"]) == [5, 0, 2, 1, 5]
    assert counter.counts([]) == []


def test_a_prompt_is_counted_as_the_template_renders_it(counter: HfTokenizer) -> None:
    turn = 1 + len("user\n") + len("hello") + 1 + len("\n")
    opening = 1 + len("assistant\n")
    assert counter.prompt([HELLO], opens_answer=False) == turn
    assert counter.prompt([HELLO, HELLO]) == 2 * turn + opening
    assert counter.prompt([]) == opening
    assert counter.per_turn >= 1 + len("user\n") + 1 + 1


def test_every_special_token_is_a_control_token(counter: HfTokenizer) -> None:
    assert counter.control_tokens == ("<|im_start|>", "<|im_end|>", "<file>")


def test_what_the_template_does_not_show_is_counted_besides(counter: HfTokenizer) -> None:
    plain = counter.prompt([HELLO])
    assert counter.prompt([HELLO], TOOLS) == plain + len(json.dumps(TOOLS, separators=(",", ":")))
    call = Turn(role="assistant", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}])
    assert counter.prompt([HELLO, call]) > counter.prompt([HELLO, Turn(role="assistant", content="")]) + 30
    image = Turn(role="user", content=[{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {}}])
    assert counter.prompt([image]) == plain + 100


def test_a_template_that_shows_tools_is_believed(tmp_path: Path) -> None:
    template = "{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML
    counter = HfTokenizer(byte_tokenizer(tmp_path / "t", template))
    assert counter.prompt([HELLO], TOOLS) == counter.prompt([HELLO]) + len(json.dumps(TOOLS))


def test_the_template_may_be_in_the_config_and_use_its_tokens(tmp_path: Path) -> None:
    config = {"chat_template": "{{ bos_token }}" + CHATML, "bos_token": {"content": "<file>"}, "eos_token": None}
    counter = HfTokenizer(byte_tokenizer(tmp_path / "t", None, **config))
    assert counter.control_tokens == ("<|im_start|>", "<|im_end|>", "<file>")
    assert counter.prompt([]) == 1 + 1 + len("assistant\n")


def test_a_template_that_refuses_is_estimated_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    template = "{% if messages[0].role != 'system' %}{{ raise_exception('no secret words') }}{% endif %}" + CHATML
    counter = HfTokenizer(byte_tokenizer(tmp_path / "t", template))
    caplog.clear()
    with caplog.at_level(logging.WARNING, "hasten"):
        assert counter.prompt([HELLO]) >= 5 + 1
        assert counter.prompt([HELLO]) == counter.prompt([HELLO])
    assert "secret" not in caplog.text
    assert counter.prompt([Turn(role="system", content="s")], opens_answer=False) == 1 + len("system\ns") + 1 + 1


def test_a_turn_before_the_first_user_goes_where_the_template_insists(tmp_path: Path, counter: HfTokenizer) -> None:
    insists = "{% if messages[0].role == 'assistant' %}{{ raise_exception('user first') }}{% endif %}" + CHATML
    strict = HfTokenizer(byte_tokenizer(tmp_path / "t", insists))
    greeting, policy = Turn(role="assistant", content="Hi!"), Settings().policy()
    kept = Turn(role="assistant", content="Hi!", extra={"keep": True})
    for first, tokens, expected in (
        (greeting, strict, ["user"]),
        (kept, strict, ["assistant", "user"]),
        (greeting, counter, ["assistant", "user"]),
    ):
        made = compress(Compress(messages=[first, HELLO]), tokens, policy)
        assert [turn.role for turn in made.messages] == expected


def test_a_template_cannot_reach_out_of_its_sandbox(tmp_path: Path) -> None:
    counter = HfTokenizer(
        byte_tokenizer(tmp_path / "t", "{{ messages.__class__.__mro__[1].__subclasses__() }}" + CHATML)
    )
    assert counter.prompt([HELLO]) < 200


def test_remembered_counts_are_bounded_and_right(tmp_path: Path) -> None:
    counter = HfTokenizer(byte_tokenizer(tmp_path / "t"), kept=10)
    texts = ["x" * at for at in range(50)]
    assert counter.counts(texts) == counter.counts(texts) == list(range(50))
    assert len(counter._remembered) == 10


def test_what_was_counted_lately_is_not_counted_again() -> None:
    asked: list[str] = []

    def count(texts: list[str]) -> list[int]:
        asked.extend(texts)
        return [len(text) for text in texts]

    remembered = Remembered(count, 2)
    assert remembered.counts(["a", "bb", "a"]) == [1, 2, 1]
    assert remembered.counts(["bb", "ccc"]) == [2, 3]
    assert remembered.counts(["a"]) == [1]
    assert asked == ["a", "bb", "ccc", "a"], "the oldest goes first"


def test_an_estimate_is_the_same_whether_it_is_remembered_or_not() -> None:
    text = "The Family plan costs 9 euros per month. " * 40
    fresh = ByteEstimate().counts([text])
    assert ESTIMATE.counts([text]) == ESTIMATE.counts([text, text])[1:] == fresh


def test_several_threads_count_alike(counter: HfTokenizer) -> None:
    texts = [f"text {at} " * (at % 7) for at in range(200)]
    expected = [len(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert all(one == expected for one in pool.map(counter.counts, [texts] * 40))


ESTIMATE = ByteEstimate(part_tokens=100)


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("", 0),
        ("The Family plan costs 9 euros per month.", 10),
        ("48213", 5),
        ("SGVsbG8gV29ybGQhIFRoaXMgaXMgYmFzZTY0", 36),
        ("解約は月末", 8),
        ("🎉🚀", 4),
        ("x" * 1000, 500),
        ("\x00\x07", 2),
        ("\n\t" * 20, 40),
        ("Ombi la kughairi lazima liwasilishwe kwa maandishi siku tatu kabla ya mwisho wa mwezi.", 34),
        ("Wypowiedzenie należy złożyć na piśmie najpóźniej trzy dni przed końcem miesiąca.", 34),
        ("합의서를 제출하십시오.", 29),
    ],
)
def test_an_estimate_is_on_the_safe_side(text: str, least: int) -> None:
    (estimated,) = ESTIMATE.counts([text])
    assert least <= estimated <= len(text.encode()) * 1.05 + 2


def test_an_estimated_prompt_counts_turns_tools_and_images() -> None:
    plain = ESTIMATE.prompt([HELLO])
    assert ESTIMATE.prompt([HELLO, HELLO]) >= plain + 8
    assert ESTIMATE.prompt([HELLO], TOOLS) > plain + 10
    assert ESTIMATE.prompt([Turn(role="user", content=[{"type": "image_url"}])]) >= 100


def test_a_tokenizer_is_found_by_name_and_loaded_once(tmp_path: Path) -> None:
    byte_tokenizer(tmp_path / "bytes")
    folder = TokenizerFolder(tmp_path)
    assert folder.known("bytes") is None
    loaded = folder.load("bytes")
    assert loaded.name == "bytes"
    assert folder.known("bytes") is loaded is folder.load("bytes")
    assert folder.loaded == ["bytes"]
    assert folder.known("") is not None


def test_a_missing_tokenizer_is_estimated_said_once_and_used_when_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    byte_tokenizer(tmp_path / "bytes")
    folder = TokenizerFolder(tmp_path)
    with caplog.at_level(logging.WARNING, "hasten"):
        assert folder.load("later").name == folder.load("later").name == "estimate"
    assert len(caplog.records) == 1
    assert f"into {tmp_path / 'later'}" in caplog.text
    assert "(there are: bytes)" in caplog.text
    byte_tokenizer(tmp_path / "later")
    assert folder.load("later").name == "later"


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"version": "1.0"}'])
def test_a_broken_tokenizer_is_estimated(tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tokenizer.json").write_text(broken)
    with caplog.at_level(logging.WARNING, "hasten"):
        assert TokenizerFolder(tmp_path).load("broken").name == "estimate"
    assert "cannot be read" in caplog.text


def test_a_tokenizer_without_a_template_is_estimated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    byte_tokenizer(tmp_path / "bare", None)
    with caplog.at_level(logging.WARNING, "hasten"):
        assert TokenizerFolder(tmp_path).load("bare").name == "estimate"
    assert "has no chat template" in caplog.text


@pytest.mark.parametrize("name", ["../secret", "a/b", "/etc", ".hidden", "a\x00b", "x" * 200, "a b"])
def test_a_name_never_leaves_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(Failed, match="bad_request"):
        TokenizerFolder(tmp_path).load(name)


def test_a_text_that_the_template_gives_by_itself_takes_no_room_from_the_passages(tmp_path: Path) -> None:
    own = "{% if messages[0]['role'] != 'system' %}" + "Be helpful. " * 20 + "{% endif %}"
    plain, wordy = (
        HfTokenizer(byte_tokenizer(tmp_path / name, template))
        for name, template in (("plain", CHATML), ("wordy", own + CHATML))
    )
    facts = [f"Parcel {at} weighs {at} kilos." for at in range(60)]
    passages = [Passage(id="p", collection="c", document="d", text=" ".join(facts), score=1.0)]
    request = Compress(messages=[HELLO], passages=passages, token_budget=900)
    with_own, without = (compress(request, one, Settings().policy()) for one in (wordy, plain))
    assert with_own.messages == without.messages
    assert 900 - with_own.tokens_after < 2 * len(facts[-1])
