"""Estimates tokens for a model whose tokenizer we do not have, on the safe side."""

import math
import re
from collections.abc import Sequence
from unicodedata import normalize

from hasten.compressor.remembered import Remembered
from hasten.compressor.tokens import Tools, as_json, other_parts, written
from hasten.messages.chat import Turn
from hasten.terms import STOP_WORDS

_DENSE = "\u0370-\u03ff\u0400-\u052f\u0590-\u05ff\u0600-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3000-\u30ff\u4e00-\u9fff"
"""Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, kana and Chinese characters: every tokenizer joins some of their
bytes."""
_PIECE = re.compile(
    rf"(?P<word>[A-Za-z]?[a-z]+(?![A-Za-z]))|(?P<letters>[A-Za-z]+)|(?P<space>(?<=[\x00-\x7f]) +)"
    rf"|(?P<dense>[{_DENSE}]+)"
    r"|(?P<other>[^\x00-\x7f])|(?P<sign>[\x00-\x7f])"
)
_MARGIN = 1.05
_ENGLISH = 0.2
"""At least so many of the words of a text are words like "the": in English prose about 0.45, elsewhere below 0.1."""
_LONG = 500
"""Characters from which on it is quicker to remember an estimate than to make it again: 0.1 ms for 500, 7 ms for a
prompt of 12,000 words, which is counted four times on its way."""
_PER_TURN = 8
_PER_PROMPT = 16
"""More than any template we know adds around a turn, and around a prompt."""


class ByteEstimate:
    """A TokenCounter that overestimates.

    In English text four letters of a word count as a token, elsewhere two; so does every letter of a word in capitals,
    every digit, sign, line's end and control character, 1.4 bytes of the scripts that tokenizers join and each byte of
    the others (in the longer of its forms: some tokenizers take ligatures apart). `python -m loadtest.token_estimate`
    sets it beside tokenizers.
    """

    name = "estimate"
    control_tokens: tuple[str, ...] = ()
    per_turn = _PER_TURN
    opens_with_user = False

    def __init__(self, part_tokens: int = 0, *, kept: int = 50_000) -> None:
        self._part_tokens = part_tokens
        self._remembered = Remembered(lambda texts: [_estimated(text) for text in texts], kept)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """An estimate for each text; 0 for an empty one only."""
        return [self._long(text) if len(text) > _LONG else _estimated(text) if text else 0 for text in texts]

    def _long(self, text: str) -> int:
        (tokens,) = self._remembered.counts([text])
        return tokens

    def prompt(self, turns: Sequence[Turn], tools: Tools = None, *, opens_answer: bool = True) -> int:
        """An estimate for the messages with a generous template around them."""
        texts = [*map(written, turns), as_json(tools) if tools else ""]
        return sum(self.counts(texts)) + _PER_TURN * len(turns) + _PER_PROMPT + self._part_tokens * other_parts(turns)


def _estimated(text: str) -> int:
    words, common, tokens = [], 0, 0.0
    for piece in _PIECE.finditer(text):
        length = piece.end() - piece.start()
        match piece.lastgroup:
            case "word":
                words.append(length)
                common += piece[0].lower() in STOP_WORDS
            case "space":
                tokens += 0 if length == 1 else 1 + length // 8
            case "dense":
                tokens += len(piece[0].encode()) / 1.4
            case "other":
                tokens += max(len(one.encode(errors="replace")) for one in (piece[0], normalize("NFKC", piece[0])))
            case _:
                tokens += length
    per_token = 4 if common >= _ENGLISH * len(words) else 2
    tokens += sum(1 + (length - 1) // per_token if length <= 12 else 1 + length / 2 for length in words)
    return math.ceil(tokens * _MARGIN) or 1
