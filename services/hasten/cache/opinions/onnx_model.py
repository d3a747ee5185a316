"""Runs an exported cross-encoder with ONNX Runtime and `tokenizers`: torch is never imported."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.cache.opinions.model import WINDOW, OpinionError, shares, yes_label

PADS = ("[PAD]", "<pad>")


class OnnxModel:
    """The graph in `folder` or below it (`model.onnx`, or the only one), with the tokenizer.json there.

    One pair is run at a time: a quantised graph may rate a pair differently beside another.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise OpinionError("a second opinion by ONNX needs onnxruntime: pip install 'hasten[opinion]'") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        graph, vocabulary = _only(folder, "model.onnx", "*.onnx"), _only(folder, "tokenizer.json", "tokenizer.json")
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(vocabulary))
        self._inputs = {node.name: node.shape for node in self._session.get_inputs()}
        self._prepare()
        self._yes = yes_label(self._logits)

    def _prepare(self) -> None:
        length = next(iter(self._inputs.values()))[1]
        fixed = length if isinstance(length, int) else None
        known = [(self._tokenizer.token_to_id(pad), pad) for pad in PADS]
        pad_id, pad = next((found for found in known if found[0] is not None), (0, PADS[0]))
        self._window = fixed or WINDOW
        self._tokenizer.no_truncation()
        if fixed:
            self._tokenizer.enable_padding(pad_id=pad_id, pad_token=pad, length=fixed)
        else:
            self._tokenizer.no_padding()

    def _logits(self, premise: str, claim: str) -> NDArray[np.float32]:
        return self._run(self._tokenizer.encode(premise, claim))

    def _run(self, read: Any) -> NDArray[np.float32]:
        rows = {"input_ids": read.ids, "attention_mask": read.attention_mask, "token_type_ids": read.type_ids}
        fed: dict[str, Any] = {name: np.array([rows[name]], dtype=np.int64) for name in self._inputs}
        made: NDArray[np.float32] = self._session.run(None, fed)[0]
        return made.reshape(-1)

    def score(self, premise: str, claim: str) -> float:
        """The probability of the label that says yes; 0 for a pair that is longer than the window."""
        read = self._tokenizer.encode(premise, claim)
        return float(shares(self._run(read))[self._yes]) if len(read.ids) <= self._window else 0.0


def _only(folder: Path, usual: str, pattern: str) -> Path:
    found = sorted(folder.rglob(pattern))
    named = [path for path in found if path.name == usual]
    for paths in (named, found):
        if len(paths) == 1:
            return paths[0]
    raise OpinionError(f"{folder} holds {len(found)} files {pattern}: a second opinion needs one, or one {usual}")
