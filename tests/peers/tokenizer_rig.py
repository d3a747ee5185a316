"""The tokenizer and the chat template of the embedded model, as the compressor counts with them."""

from pathlib import Path

import pytest

from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.weights import folder, prepare

DATA = Path(__file__).parents[2] / ".hasten"


@pytest.fixture(scope="module")
def smollm2() -> HfTokenizer:
    """Made once for all tests."""
    prepare(DATA, print)
    return HfTokenizer(folder(DATA) / "smollm2")
