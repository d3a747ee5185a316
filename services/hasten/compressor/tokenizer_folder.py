"""Finds the tokenizer of a model by name in the data folder."""

import re
import threading
from pathlib import Path

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.hf_tokenizer import CONFIG, TEMPLATE, TOKENIZER, HfTokenizer
from hasten.compressor.tokens import TokenCounter
from hasten.messages.failure import Failed
from hasten.telemetry import logger

log = logger("compressor")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

_MOST_WARNINGS = 100
"""Names come with requests: neither the log nor the memory of what it holds may grow with them."""


class TokenizerFolder:
    """Tokenizers by name from `<models>/<name>/tokenizer.json`, each loaded once.

    A name without files, and no name, get an estimate; a warning says so once, and files that come later are used.
    """

    def __init__(self, models: Path, *, counts_kept: int = 50_000, part_tokens: int = 0) -> None:
        self._models, self._counts_kept, self._part_tokens = models, counts_kept, part_tokens
        self._loaded: dict[str, HfTokenizer] = {}
        self._missed: set[str] = set()
        self._estimate = ByteEstimate(part_tokens, kept=counts_kept)
        self._lock = threading.Lock()

    @property
    def loaded(self) -> list[str]:
        """The names of the tokenizers in memory."""
        return sorted(self._loaded)

    def load_all(self) -> None:
        """Loads every tokenizer that is there, so that no request waits for it."""
        for path in sorted(self._models.glob(f"*/{TOKENIZER}")):
            if (path.parent / TEMPLATE).is_file() or (path.parent / CONFIG).is_file():
                self.load(path.parent.name)

    def known(self, name: str) -> TokenCounter | None:
        """The counter if it is at hand; None when `load` has to read files."""
        return self._loaded.get(name) or (None if name else self._estimate)

    def load(self, name: str) -> TokenCounter:
        """The counter of that name (about 0.1 s the first time); raises Failed(bad_request) for an impossible name."""
        if not _NAME.fullmatch(name):
            raise Failed("bad_request", "a tokenizer is the name of a folder beside the models", param="tokenizer")
        folder = self._models / name
        with self._lock:
            if name not in self._loaded and (folder / TOKENIZER).is_file():
                try:
                    self._loaded[name] = HfTokenizer(folder, kept=self._counts_kept, part_tokens=self._part_tokens)
                except Exception as error:  # the library raises bare Exception for a broken file
                    self._miss(name, _trouble(folder, error))
            found = self._loaded.get(name)
            if found is None:
                self._miss(name, "is not there")
            return found or self._estimate

    def _miss(self, name: str, why: str) -> None:
        if name not in self._missed and len(self._missed) < _MOST_WARNINGS:
            self._missed.add(name)
            there = ", ".join(path.parent.name for path in sorted(self._models.glob(f"*/{TOKENIZER}"))) or "none"
            log.warning(
                "the tokenizer %s %s: tokens are estimated. Put its tokenizer.json and chat_template.jinja into %s, or "
                "name another in the model table (there are: %s)",
                *(name, why, self._models / name, there),
            )


def _trouble(folder: Path, error: Exception) -> str:
    if isinstance(error, ValueError) and not (folder / TEMPLATE).is_file():
        return "has no chat template"
    return f"cannot be read ({type(error).__name__})"
