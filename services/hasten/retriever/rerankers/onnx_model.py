"""Runs an exported cross-encoder with ONNX Runtime and `tokenizers`: torch is never imported."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.retriever.rerankers.model import RerankError

PADS = ("[PAD]", "<pad>")


class OnnxModel:
    """The graph in `folder` or below it (`model.onnx`, or the only one), with the tokenizer.json there."""

    def __init__(self, folder: Path, window: int, threads: int) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise RerankError("reranking by ONNX needs onnxruntime: pip install 'hasten[embedded]'") from None
        if not folder.is_dir():
            raise RerankError(f"[retriever] rerank names {folder}, which is no folder")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        graph, vocabulary = _only(folder, "model.onnx", "*.onnx"), _only(folder, "tokenizer.json", "tokenizer.json")
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._plain, self._pairs = (Tokenizer.from_file(str(vocabulary)) for _ in range(2))
        self._inputs = {node.name: node.shape for node in self._session.get_inputs()}
        self._prepare(window)
        self.special = int(self._pairs.num_special_tokens_to_add(is_pair=True))

    def _prepare(self, window: int) -> None:
        length = next(iter(self._inputs.values()))[1]
        fixed = length if isinstance(length, int) else None
        known = [(self._pairs.token_to_id(pad), pad) for pad in PADS]
        pad_id, pad = next((found for found in known if found[0] is not None), (0, PADS[0]))
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


def _only(folder: Path, usual: str, pattern: str) -> Path:
    found = sorted(folder.rglob(pattern))
    named = [path for path in found if path.name == usual]
    for paths in (named, found):
        if len(paths) == 1:
            return paths[0]
    raise RerankError(f"{folder} holds {len(found)} files {pattern}: reranking needs one, or one {usual}")
