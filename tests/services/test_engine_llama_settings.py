"""Engines with settings of their own: they say what the plain one says, from the file that they were told to run."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import SMALL, EngineConfig, Model
from hasten.settings import SettingsError
from hasten.weights import WeightsMissing, folder, prepare, requantized
from hasten.worker.engines import End
from hasten.worker.engines.llama import LlamaEngine

DATA = Path(__file__).parents[2] / ".hasten"
COPY = "Repeat this word for word: The ferry leaves at nine and at noon, and a berth costs 31 euros a night."


@pytest.fixture(scope="module")
def data() -> Path:
    """The data folder with the embedded models."""
    prepare(DATA, lambda line: None)
    return DATA


async def _said(data: Path, window: int = 512, **settings: Any) -> str:
    config = msgspec.convert({"path": SMALL.engine.path, "slots": 1, **settings}, EngineConfig)
    engine = LlamaEngine.from_config(Model(name="m", slug="m", engine=config, context_window=window), data)
    await engine.start()
    try:
        request = Generate(messages=[Turn(role="user", content=COPY)], max_tokens=16, temperature=0.0)
        events = [event async for event in engine.generate("acme/r", request)]
        return "".join(event.text for event in events if not isinstance(event, End))
    finally:
        await engine.close()


async def test_guessing_ahead_and_other_steps_still_answer(data: Path) -> None:
    plain = await _said(data)
    assert len(plain) > 40
    draft: dict[str, Any] = {"llama_speculative": "draft", "llama_draft": SMALL.engine.path, "llama_draft_tokens": 4}
    ngram: dict[str, Any] = {"llama_speculative": "ngram"}
    for guessing in (ngram, draft):
        assert (await _said(data, **guessing))[:24] == plain[:24]
    others: dict[str, Any] = {"llama_batch": 128, "llama_prefill_threads": 2, "llama_cache_type": "q8_0"}
    assert await _said(data, llama_continuous_batching=False, **others)


async def test_the_file_of_the_wanted_precision_is_run(data: Path, tmp_path: Path) -> None:
    models = folder(tmp_path)
    models.mkdir()
    (models / "m.gguf").write_bytes(b"never read")
    (models / "m.q8_0.gguf").symlink_to((folder(data) / SMALL.engine.path).resolve())
    assert await _said(tmp_path, path="m.gguf", llama_quantization="q8_0")
    with pytest.raises(SettingsError, match=r"m.gguf cannot be made q4_0"):
        await _said(tmp_path, path="m.gguf", llama_quantization="q4_0")
    assert sorted(path.name for path in models.glob("*.gguf")) == ["m.gguf", "m.q8_0.gguf"]


async def test_a_draft_model_that_is_missing_is_one_sentence(data: Path) -> None:
    with pytest.raises(WeightsMissing, match=r"small.gguf is missing"):
        await _said(data, llama_speculative="draft", llama_draft="small.gguf")


async def test_a_window_beyond_what_the_model_was_trained_for_is_refused(data: Path) -> None:
    with pytest.raises(SettingsError, match="context_window of 8192 tokens at most"):
        await _said(data, window=8448)


def test_a_file_is_made_in_another_precision_once(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("matrix", numpy.linspace(-1, 1, 64 * 32, dtype=numpy.float32).reshape(64, 32))
    writer.add_tensor("vector", numpy.ones(32, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    lines: list[str] = []
    assert requantized(tmp_path / "m.gguf", "", lines.append) == tmp_path / "m.gguf"
    for _ in range(2):
        made = requantized(tmp_path / "m.gguf", "q4_0", lines.append)
    assert (made.name, lines) == ("m.q4_0.gguf", ["making m.q4_0.gguf"])
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(made).tensors}
    assert kinds == {"matrix": "Q4_0", "vector": "F32"}
    assert made.stat().st_size < (tmp_path / "m.gguf").stat().st_size
