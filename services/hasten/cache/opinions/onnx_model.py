"""Runs an exported cross-encoder with ONNX Runtime and `tokenizers`: torch is never imported."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.cache.opinions.model import WINDOW, OpinionError, shares, yes_label
from hasten.onnx_folder import opened, padding


class OnnxModel:
    """The graph in `folder` or below it (`model.onnx`, or the only one), with the tokenizer.json there.

    One pair is run at a time: a quantised graph may rate a pair differently beside another.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        try:
            self._session, self._tokenizer = opened(folder, threads)
        except ImportError:
            raise OpinionError("a second opinion by ONNX needs onnxruntime: pip install 'hasten[opinion]'") from None
        except ValueError as error:
            raise OpinionError(str(error)) from None
        self._inputs = {node.name: node.shape for node in self._session.get_inputs()}
        self._prepare()
        self._yes = yes_label(self._logits)

    def _prepare(self) -> None:
        length = next(iter(self._inputs.values()))[1]
        fixed = length if isinstance(length, int) else None
        pad_id, pad = padding(self._tokenizer)
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
