"""A cross-encoder small enough to be made by a test: its graph counts the words that two texts share."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from hasten.cache.opinions.model import ALIKE, FAR, NEAR

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
STEEP = 40.0


def write(
    folder: Path,
    *,
    labels: int = 1,
    yes: int = 0,
    length: int | None = None,
    sign: float = 1.0,
    texts: Iterable[str] = (),
) -> None:
    """Writes `model.onnx` and `tokenizer.json`. The logit is positive when most words of the first text are in the
    second, times `sign`; among several `labels` the one at `yes` has it and the others its opposite. `length` makes
    the graph take texts of that many tokens only, as some exports do. `texts` hold more words that it is to know."""
    folder.mkdir(parents=True, exist_ok=True)
    _tokenizer(texts).save(str(folder / "tokenizer.json"))
    save(_graph(labels, yes, length, sign), str(folder / "model.onnx"))


def _tokenizer(texts: Iterable[str]) -> Any:
    known = [*(text for pair in (*ALIKE, *NEAR, *FAR) for text in pair), *texts]
    words = sorted({word for text in known for word in text.lower().strip("?.").split()})
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate((*SPECIAL, *words))}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special)
    made.enable_padding(length=100)
    return Tokenizer.from_str(json.dumps(json.loads(made.to_str())))


def _graph(labels: int, yes: int, length: int | None, sign: float) -> Any:
    """share = words of the first text (type 0, no special token) that equal a word of the second; the padding counts
    for neither."""
    shape = ["batch", length or "length"]
    names = ("input_ids", "attention_mask", "token_type_ids")
    signs = np.full((1, labels), -sign * STEEP, dtype=np.float32)
    signs[0, yes] = sign * STEEP
    constants = {
        "one": np.array(1, np.int64), "three": np.array(3, np.int64), "most": np.array(0.75, np.float32),
        "few": np.array(1e-6, np.float32), "signs": signs, "last": np.array([2], np.int64),
        "middle": np.array([1], np.int64), "row": np.array([-1, 1], np.int64),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Greater", ["input_ids", "three"], ["word"]),
        node("Equal", ["attention_mask", "one"], ["there"]),
        node("And", ["word", "there"], ["real"]),
        node("Equal", ["token_type_ids", "one"], ["second"]),
        node("Not", ["second"], ["first"]),
        node("And", ["real", "first"], ["ours"]),
        node("And", ["real", "second"], ["theirs"]),
        node("Unsqueeze", ["input_ids", "last"], ["down"]),
        node("Unsqueeze", ["input_ids", "middle"], ["across"]),
        node("Equal", ["down", "across"], ["equal"]),
        node("Unsqueeze", ["theirs", "middle"], ["allowed"]),
        node("And", ["equal", "allowed"], ["match"]),
        node("Cast", ["match"], ["matches"], to=TensorProto.FLOAT),
        node("ReduceMax", ["matches", "last"], ["found"], keepdims=0),
        node("Cast", ["ours"], ["weight"], to=TensorProto.FLOAT),
        node("Mul", ["found", "weight"], ["shared"]),
        node("ReduceSum", ["shared", "middle"], ["hits"], keepdims=0),
        node("ReduceSum", ["weight", "middle"], ["words"], keepdims=0),
        node("Add", ["words", "few"], ["all"]),
        node("Div", ["hits", "all"], ["share"]),
        node("Sub", ["share", "most"], ["above"]),
        node("Reshape", ["above", "row"], ["column"]),
        node("Mul", ["column", "signs"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in names],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    checker.check_model(made)
    return made
