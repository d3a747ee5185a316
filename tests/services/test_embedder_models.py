"""Which model the embedder runs: the export, torch when the export disagrees, or another model; and how it exports."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from hasten.embedder import export, loading
from hasten.embedder.encoder import EncoderError
from hasten.embedder.onnx_encoder import OnnxEncoder
from hasten.embedder.settings import DEFAULT_MODEL, Settings
from hasten.embedder.torch_encoder import TorchEncoder

DATA = Path(__file__).parents[2] / ".hasten"


@pytest.fixture(scope="module")
def torch_encoder() -> TorchEncoder:
    """The shipped model, loaded the general way."""
    return TorchEncoder(export.model_path(), 1)


def facts(data: Path) -> dict[str, object]:
    """What the check of an export found."""
    found: dict[str, object] = json.loads((export.folder(data) / "export.json").read_text())
    return found


def test_torch_and_the_export_agree_in_vectors_counts_and_truncation(torch_encoder: TorchEncoder) -> None:
    export.prepare(DATA, print)
    onnx = OnnxEncoder(export.folder(DATA), 1)
    texts = ["Order A-4711: was it returned?", "", "word " * 300, "Rückgabe 返品 🙂"]
    one, other = torch_encoder.encode(texts), onnx.encode(texts)
    assert (one.vectors * other.vectors).sum(axis=1).min() >= export.AGREEMENT
    assert (one.tokens, one.truncated) == (other.tokens, other.truncated)
    assert (torch_encoder.dim, torch_encoder.window) == (onnx.dim, onnx.window) == (384, 256)
    assert facts(DATA)["agrees"] is True


def test_another_model_is_run_by_torch_under_its_own_name(torch_encoder: TorchEncoder) -> None:
    loaded = loading.load(Settings(model=export.model_path()))
    assert isinstance(loaded, TorchEncoder)
    assert loaded.name == export.model_path()


def test_an_export_that_disagrees_is_not_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    export.folder(tmp_path).mkdir(parents=True)
    (export.folder(tmp_path) / "export.json").write_text(json.dumps({"format": export.FORMAT, "agrees": False}))
    loaded = loading.load(Settings(data=str(tmp_path)))
    assert isinstance(loaded, TorchEncoder)
    assert loaded.name == DEFAULT_MODEL
    assert "disagrees with torch" in caplog.text


def test_the_check_notices_a_wrong_export(torch_encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    export.prepare(DATA, print)
    onnx = OnnxEncoder(export.folder(DATA), 1)
    right = onnx.encode
    monkeypatch.setattr(onnx, "encode", lambda texts: right([text[: len(text) // 2] for text in texts]))
    assert export.agreement(torch_encoder, onnx) < export.AGREEMENT


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="cannot be loaded") as refused:
        loading.load(Settings(model=str(tmp_path)))
    assert "\n" not in str(refused.value)


def test_several_who_prepare_at_once_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []

    def build(aside: Path) -> float:
        built.append(aside)
        (aside / "export.json").write_text(json.dumps({"format": export.FORMAT, "agrees": True}))
        return 1.0

    monkeypatch.setattr(export, "_build", build)
    threads = [threading.Thread(target=export.prepare, args=(tmp_path, print)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert export.state(tmp_path) is True


def test_an_export_that_fails_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(aside: Path) -> float:
        (aside / "model.onnx").write_bytes(b"half")
        raise EncoderError("no room")

    monkeypatch.setattr(export, "_build", build)
    for _ in range(2):
        with pytest.raises(EncoderError, match="no room"):
            export.prepare(tmp_path, print)
    assert export.state(tmp_path) is None
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == [f"{export.folder(tmp_path).name}.lock"]


def test_an_export_of_another_format_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export.folder(tmp_path).mkdir(parents=True)
    (export.folder(tmp_path) / "export.json").write_text(json.dumps({"format": 0, "agrees": True}))

    def build(aside: Path) -> float:
        (aside / "export.json").write_text(json.dumps({"format": export.FORMAT, "agrees": True}))
        return 1.0

    monkeypatch.setattr(export, "_build", build)
    export.prepare(tmp_path, print)
    assert facts(tmp_path) == {"format": export.FORMAT, "agrees": True}


def test_agreement_is_none_for_vectors_that_are_not_finite(
    torch_encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx = OnnxEncoder(export.folder(DATA), 1)
    right = onnx.encode

    def broken(texts: list[str]) -> object:
        made = right(texts)
        made.vectors[0] = np.nan
        return made

    monkeypatch.setattr(onnx, "encode", broken)
    assert export.agreement(torch_encoder, onnx) == 0.0
