"""Models for second opinions: loaded as an operator would name them, run for real, refused when they are of no use."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import word_overlap

from hasten.cache.opinion import agreed
from hasten.cache.opinions import OpinionError, load
from hasten.cache.opinions.model import ALIKE, FAR, NEAR, WINDOW, shares, yes_label

NAMED = os.environ.get("HASTEN_TEST_OPINION", "")


@pytest.mark.parametrize(
    ("labels", "yes", "length"),
    [(1, 0, None), (2, 0, None), (3, 1, None), (3, 2, 32)],
    ids=["one output", "yes first", "yes in the middle", "a fixed length"],
)
def test_a_graph_is_run_whatever_the_order_of_its_labels(tmp_path: Path, labels: int, yes: int, length: int) -> None:
    word_overlap.write(tmp_path, labels=labels, yes=yes, length=length)
    model = load(f"onnx:{tmp_path}")
    assert model.score("How do I reset my password", "How can I reset my password") > 0.9
    assert model.score("How do I reset my password", "Which museums are there in Oslo") < 0.1
    part, whole = "dogs run", "two dogs are running in the snow while a man is eating and dogs run"
    assert model.score(part, whole) > 0.9 > 0.2 > model.score(whole, part)
    assert not agreed(model, part, whole, 0.9)


@pytest.mark.parametrize("length", [None, 32], ids=["any length", "a fixed length"])
def test_a_pair_that_is_too_long_to_be_read_is_never_the_same(tmp_path: Path, length: int | None) -> None:
    word_overlap.write(tmp_path, length=length)
    model = load(f"onnx:{tmp_path}")
    most = (length or WINDOW) // 2 - 2
    assert model.score("dogs " * most, "dogs " * most) > 0.9
    assert model.score("dogs " * (most + 1), "dogs " * (most + 1)) == 0.0


def test_a_graph_and_its_vocabulary_may_lie_in_folders_below(tmp_path: Path) -> None:
    word_overlap.write(tmp_path / "all")
    for place, name in (("graphs", "model.onnx"), ("words", "tokenizer.json")):
        (tmp_path / place).mkdir()
        (tmp_path / "all" / name).rename(tmp_path / place / name)
    assert load(f"onnx:{tmp_path}").score(*ALIKE[0]) > 0.9
    (tmp_path / "graphs" / "model.onnx").rename(tmp_path / "graphs" / "one.onnx")
    (tmp_path / "graphs" / "two.onnx").write_bytes(b"")
    with pytest.raises(OpinionError, match="2 files"):
        load(f"onnx:{tmp_path}")


def test_a_model_that_cannot_tell_is_refused(tmp_path: Path) -> None:
    word_overlap.write(tmp_path, sign=-1.0)
    with pytest.raises(OpinionError, match="does not tell"):
        load(f"onnx:{tmp_path}")
    word_overlap.write(tmp_path, labels=2, yes=0, sign=0.0)
    with pytest.raises(OpinionError, match="does not tell"):
        load(f"onnx:{tmp_path}")


def test_what_cannot_be_loaded_says_so_in_a_sentence(tmp_path: Path) -> None:
    for named in ("", "onnx", "onnx:", f"gguf:{tmp_path}"):
        with pytest.raises(OpinionError, match="has to be onnx:FOLDER or sentence-transformers:FOLDER"):
            load(named)
    with pytest.raises(OpinionError, match="no folder"):
        load(f"onnx:{tmp_path}/absent")
    with pytest.raises(OpinionError, match="0 files"):
        load(f"onnx:{tmp_path}")
    word_overlap.write(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(OpinionError, match="cannot be used"):
        load(f"onnx:{tmp_path}")


@pytest.mark.parametrize(("adapter", "module"), [("onnx", "onnxruntime"), ("sentence-transformers", "torch")])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapter: str, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OpinionError, match=r"pip install 'hasten\[opinion\]'"):
        load(f"{adapter}:{tmp_path}")


def test_a_folder_of_sentence_transformers_is_loaded_and_refused_when_untrained(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    word_overlap.write(tmp_path)
    (tmp_path / "model.onnx").unlink()
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), pad_token="[PAD]", model_max_length=128
    )
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), num_labels=3, **shape)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    with pytest.raises(OpinionError, match="does not tell"):
        load(f"sentence-transformers:{tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OpinionError, match="cannot be used"):
        load(f"sentence-transformers:{tmp_path}")


def test_outputs_become_probabilities() -> None:
    assert shares(np.array([0.0], np.float32)).tolist() == [0.5]
    assert shares(np.array([-1000.0], np.float32))[0] < 1e-6
    assert shares(np.array([1000.0, 1000.0, -1000.0], np.float32)).tolist() == [0.5, 0.5, 0.0]


def says(alike: list[float], near: list[float], far: list[float]) -> int:
    """The label that is taken for yes when pairs of these kinds are given these probabilities."""
    kinds = {pair: row for pairs, row in ((ALIKE, alike), (NEAR, near), (FAR, far)) for pair in pairs}
    return yes_label(lambda *pair: np.log(np.array(kinds[pair], np.float32)))


def test_yes_is_what_only_pairs_of_one_meaning_get() -> None:
    assert says([0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]) == 0
    with pytest.raises(OpinionError):
        says([0.4, 0.6], [0.01, 0.99], [0.98, 0.02])
    with pytest.raises(OpinionError):
        says([0.9, 0.1], [0.85, 0.15], [0.01, 0.99])
    with pytest.raises(OpinionError):
        says([float("nan"), 0.1], [0.1, 0.9], [0.1, 0.9])


@pytest.mark.skipif(not NAMED, reason="no model is named: HASTEN_TEST_OPINION=onnx:FOLDER (none comes with hasten)")
def test_the_named_model_tells_questions_apart_both_ways() -> None:
    model = load(NAMED)
    same, near = (np.mean([min(model.score(a, b), model.score(b, a)) for a, b in pairs]) for pairs in (ALIKE, NEAR))
    assert same > near + 0.1
