"""Runs an exported cross-encoder with ONNX Runtime and `tokenizers`: torch is never imported."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.onnx_folder import opened, padding
from hasten.retriever.rerankers.model import RerankError


class OnnxModel:
    """The graph in `folder` or below it (`model.onnx`, or the only one), with the tokenizer.json there."""

    def __init__(self, folder: Path, window: int, threads: int) -> None:
        if not folder.is_dir():
            raise RerankError(f"[retriever] rerank names {folder}, which is no folder")
        try:
            self._session, self._plain = opened(folder, threads)
        except ImportError:
            raise RerankError("reranking by ONNX needs onnxruntime: pip install 'hasten[embedded]'") from None
        except ValueError as error:
            raise RerankError(str(error)) from None
        self._pairs = type(self._plain).from_str(self._plain.to_str())
        self._inputs = {node.name: node.shape for node in self._session.get_inputs()}
        self._prepare(window)
        self.special = int(self._pairs.num_special_tokens_to_add(is_pair=True))

    def _prepare(self, window: int) -> None:
        length = next(iter(self._inputs.values()))[1]
        fixed = length if isinstance(length, int) else None
        pad_id, pad = padding(self._pairs)
        self.window = fixed or window
        self._plain.no_truncation()
        self._plain.no_padding()
        self._pairs.enable_truncation(self.window, strategy="only_second")
        self._pairs.enable_padding(pad_id=pad_id, pad_token=pad, length=fixed)

    def tokens(self, text: str) -> list[tuple[int, int]]:
        """The tokens of a text as spans of its characters."""
        spans: list[tuple[int, int]] = self._plain.encode(text, add_special_tokens=False).offsets
        return spans

    def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
        """One row of outputs per passage; a graph that takes one pair at a time is given one."""
        read = self._pairs.encode_batch([(question, passage) for passage in passages])
        alone = next(iter(self._inputs.values()))[0] == 1
        parts = [[one] for one in read] if alone else [read]
        return np.concatenate([self._run(part) for part in parts])

    def _run(self, read: list[Any]) -> NDArray[np.float32]:
        rows = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        fed = {name: np.array([getattr(one, rows[name]) for one in read], dtype=np.int64) for name in self._inputs}
        made: NDArray[np.float32] = np.asarray(self._session.run(None, fed)[0], dtype=np.float32)
        return made.reshape(len(read), -1)
