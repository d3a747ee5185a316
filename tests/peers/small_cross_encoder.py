"""Real cross-encoders for tests: one random layer of transformers, and a graph that counts common words."""

from pathlib import Path
from typing import Any

import word_overlap

from hasten.messages.retrieve import Passage
from hasten.retriever.rerankers.model import JUDGED

WORDS = "the pump of an orka costs eighty euro and weather was fine in bergen filler text goes on here"


def write_layer(folder: Path) -> None:
    """Writes a BERT of one layer, 16 wide, whose scores say nothing, and the tokenizer of its words."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys([*WORDS.split(), *".,?!"])]
    shape: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(words), intermediate_size=32, max_position_embeddings=128, num_labels=1, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab={word: at for at, word in enumerate(words)}).save_pretrained(folder)


def write_overlap(folder: Path, **options: Any) -> None:
    """Writes a graph for ONNX Runtime that rates a passage by the question's words in it."""
    word_overlap.write(folder, texts=[WORDS, *(text for row in JUDGED for text in row)], **options)


def passage(at: int, text: str, score: float, **fields: Any) -> Passage:
    """A passage as the library gives it."""
    return Passage(id=f"help/{at}#0", collection="help", document=str(at), text=text, score=score, **fields)
