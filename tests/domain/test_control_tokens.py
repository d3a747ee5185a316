"""No text of a user, a document or a tool becomes a control token of a model, in whatever part of a request it is."""

import json
import time
import unicodedata
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_rig import smollm2
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from hasten.compressor.domain import compress
from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.compressor.settings import Settings
from hasten.control import neutral_turn, neutraliser
from hasten.messages.chat import Example, Turn
from hasten.messages.compress import Compress
from hasten.messages.generate import Generate
from hasten.messages.retrieve import Passage
from hasten.worker.domain import made_safe

__all__ = ["smollm2"]
FAMILIES = {
    "ChatML": ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|fim_prefix|>", "<|vision_start|>"],
    "Llama 2": ["<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"],
    "Llama 3": ["<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"],
    "Llama 4": ["<|header_start|>", "<|eot|>"],
    "Gemma": ["<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>"],
    "Mistral": [
        "[AVAILABLE_TOOLS]",
        "[/TOOL_RESULTS]",
        "[TOOL_CALLS]",
        "[SYSTEM_PROMPT]",
        "[ARGS]",
        "[CALL_ID]",
        "[IMG]",
    ],
    "Phi": ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|im_sep|>"],
    "Qwen": ["<tool_call>", "</tool_call>", "<tool_response>", "<|object_ref_start|>"],
    "DeepSeek": ["<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜tool▁calls▁begin｜>", "<|EOT|>"],
    "Granite": ["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>"],
    "Command R": ["<|START_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|END_RESPONSE|>"],
    "harmony": ["<|start|>", "<|channel|>", "<|message|>", "<|return|>", "<|call|>", "<|constrain|>"],
    "GLM": ["[gMASK]", "<sop>", "<|observation|>"],
}
TOKENS = [token for tokens in FAMILIES.values() for token in tokens]
OWN = ["<repo_name>", "<file_sep>", "<filename>", "<jupyter_code>", "<empty_output>"]
BLANKS = ["\u200b", "\u200d", "\ufeff", "\u2060", "\u00ad"]
WIDE = {chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)}


def cleaning() -> Tokenizer:
    """A tokenizer that normalises before it looks for its tokens, and leaves out what has no shape."""
    alphabet = {byte: at for at, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    blanks = [normalizers.Replace(blank, "") for blank in BLANKS]
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), *blanks])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    wanted = [token for token in (*TOKENS, *OWN) if token == unicodedata.normalize("NFKC", token)]
    made.add_special_tokens([AddedToken(token, special=True, normalized=True) for token in wanted])
    return made


CLEANING = cleaning()
SPECIAL = {at for at, one in CLEANING.get_added_tokens_decoder().items() if one.special}


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """A control token, some of its characters wide, with blanks between some."""
    token = draw(st.sampled_from([*TOKENS, *OWN]))
    wide = draw(st.lists(st.booleans(), min_size=len(token), max_size=len(token)))
    blanks = draw(st.lists(st.sampled_from(["", "", "", *BLANKS]), min_size=len(token), max_size=len(token)))
    letters = (WIDE.get(one, one) if is_wide else one for one, is_wide in zip(token, wide, strict=True))
    return "".join(letter + blank for letter, blank in zip(letters, blanks, strict=True))


PIECES = st.one_of(
    disguised(),
    st.sampled_from([*TOKENS, *OWN]),
    st.sampled_from(
        ["<", "|", ">", "[", "]", "im_end", "/", "s", "INST", " ", "\n", "価格は９ユーロ。", "👩‍👩‍👧", "é", "क्षि"]
    ),
    st.text(max_size=8),
)
HOSTILE = st.lists(PIECES, max_size=8).map("".join)


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_of_any_family_is_broken_once_and_can_be_read(token: str) -> None:
    made = neutraliser()(f"before {token}{token} after")
    assert token not in made
    assert made == f"before {token[0]} {token[1:]}{token[0]} {token[1:]} after"


@given(HOSTILE)
def test_no_special_token_comes_from_text_even_where_a_tokenizer_cleans_it(text: str) -> None:
    neutral = neutraliser((*TOKENS, *OWN))
    made = neutral(text)
    assert not SPECIAL & set(CLEANING.encode(made, add_special_tokens=False).ids)
    assert neutral(made) == made
    assert made.replace(" ", "") == text.replace(" ", "")


@given(HOSTILE)
def test_no_character_is_split(text: str) -> None:
    made = neutraliser((*TOKENS, *OWN))(text)
    clusters = regex.findall(r"\X", made)
    assert "".join(clusters).replace(" ", "") == text.replace(" ", "")
    assert [one for one in clusters if one != " "] == [one for one in regex.findall(r"\X", text) if one != " "]


@settings(max_examples=60, deadline=None)
@given(st.lists(HOSTILE, min_size=9, max_size=9))
def test_the_model_sees_the_turns_that_there_are_and_no_more(smollm2: HfTokenizer, texts: list[str]) -> None:
    one, two, three, four, five, six, seven, eight, nine = texts
    turns = [
        Turn(role="system", content="You sell plans."),
        Turn(role="user", content=one, name=two),
        Turn(role="assistant", content=three),
        Turn(role="user", content=[{"type": "text", "text": four}, {"type": "text", "text": five}]),
    ]
    passages = [Passage(id="p", collection="c", document="d", title=six, heading=seven, text=eight + "\n\n" + nine)]
    body = Compress(
        messages=turns, passages=passages, examples=[Example(user=nine, assistant=six)], tokenizer="smollm2"
    )
    made = compress(body, smollm2, Settings().policy())
    ids = smollm2._tokenizer.encode(smollm2._render(made.messages, None, opens_answer=True)).ids
    assert sorted(at for at in ids if at <= 16) == [1] * (len(made.messages) + 1) + [2] * len(made.messages)


def test_every_special_token_of_the_tokenizer_counts_whether_the_template_uses_it_or_not(smollm2: HfTokenizer) -> None:
    assert {"<|im_start|>", *OWN} <= set(smollm2.control_tokens)
    text = "hasten ingest <filename> --into <table>"
    assert neutraliser(smollm2.control_tokens)(text) == "hasten ingest < filename> --into <table>"


@pytest.mark.parametrize(
    "text",
    [
        "if (a <| b) { c |> d; }",
        "<div class='s'>価格</div> [1] [INSTALL] <tools>",
        "x = a[i] << b[j]; y <s_max>; z[ARGS_]",
        "| a | b |\n|---|---|\n| <b>1</b> | [link](x) |",
        "＜見出し＞ と ［１］ と 〈注〉",
        "می‌خواهم <b>بخرم</b>",
    ],
)
def test_code_and_markup_that_is_no_control_token_survives(text: str) -> None:
    assert neutraliser(OWN)(text) == text


def test_everything_of_a_tool_call_is_made_safe() -> None:
    neutral = neutraliser()
    calls: list[dict[str, Any]] = [
        {"id": "c<s>", "function": {"name": "save<|im_end|>", "arguments": {"a": ["x</s>", 1.50, None], "b<s>": True}}},
        {"id": "d", "custom": {"input": "[INST]"}},
    ]
    turn = neutral_turn(Turn(role="assistant", tool_calls=calls), neutral)
    answer = neutral_turn(Turn(role="tool", tool_call_id="c<s>", name="<|x|>", content="</s>"), neutral)
    assert not any(token in str(turn) + str(answer) for token in ("<s>", "</s>", "<|", "[INST]"))
    assert turn.tool_calls is not None
    assert answer.tool_call_id == turn.tool_calls[0]["id"]
    assert turn.tool_calls[0]["function"]["arguments"]["a"] == ["x< /s>", 1.50, None]


@pytest.mark.parametrize("escaped", [r"\u003c|im_end|>", r"<\u007cim_end|\u003e", r"<\/s>", r"\uff1c|im_end|>"])
def test_arguments_are_safe_after_they_are_decoded(escaped: str) -> None:
    arguments = f'{{"price": 1.10, "n": 12345678901234567890, "text": "a{escaped}b", "path": "C:\\\\new\\n"}}'
    calls = [{"id": "c", "function": {"name": "f", "arguments": arguments}}]
    turn = neutral_turn(Turn(role="assistant", tool_calls=calls), neutraliser())
    assert turn.tool_calls is not None
    made = turn.tool_calls[0]["function"]["arguments"]
    assert made.startswith('{"price": 1.10, "n": 12345678901234567890, ')
    assert json.loads(made)["text"].replace(" ", "") == json.loads(arguments)["text"]
    assert neutraliser()(json.loads(made)["text"]) == json.loads(made)["text"]
    assert json.loads(made)["path"] == "C:\\new\n"


def test_a_worker_that_is_asked_directly_makes_its_request_safe() -> None:
    turns = [Turn(role="system", content="<|im_end|>"), Turn(role="user", content="x<|im_end|>")]
    made = made_safe(Generate(messages=turns))
    assert [turn.content for turn in made.messages] == ["<|im_end|>", "x< |im_end|>"]


def test_long_text_made_to_be_slow_is_not() -> None:
    """Each is about as much work as plain text of ten times its length, or less."""
    neutral = neutraliser(OWN)

    def seconds(text: str) -> float:
        began = time.process_time()
        neutral(text)
        return time.process_time() - began

    plain = min(seconds("Ein Satz über <b>Pläne</b> [1]. " * 20_000) for _ in range(3))
    for piece in ("<", "＜", "<\u200b", "＜中", "<|", "[\u200d", "<<|a"):
        assert min(seconds(piece * (60_000 // len(piece))) for _ in range(2)) < 10 * plain + 0.05
