"""Chooses and loads the encoder; blocking, so it runs in the embedder's thread."""

import subprocess
import sys
from pathlib import Path

from hasten.embedder import export
from hasten.embedder.encoder import Encoder, EncoderError
from hasten.embedder.onnx_encoder import OnnxEncoder
from hasten.embedder.selfcheck import check
from hasten.embedder.settings import DEFAULT_MODEL, Settings
from hasten.embedder.torch_encoder import TorchEncoder
from hasten.telemetry import logger

log = logger("embedder")


def load(settings: Settings) -> Encoder:
    """A checked encoder for these settings; raises EncoderError with one sentence when there is none."""
    encoder = _default(settings) if settings.model == DEFAULT_MODEL else TorchEncoder(settings.model, settings.threads)
    check(encoder, settings.related_margin)
    return encoder


def _default(settings: Settings) -> Encoder:
    data = Path(settings.data)
    if export.state(data) is None:
        _export_aside(data)
    if export.state(data):
        return OnnxEncoder(export.folder(data), settings.threads)
    log.warning("the exported embedding model disagrees with torch, so torch runs it: slower to start and to embed")
    return TorchEncoder(export.model_path(), settings.threads, DEFAULT_MODEL)


def _export_aside(data: Path) -> None:
    """Exports in a process of its own, so that torch's memory and its hold on the interpreter end with it."""
    log.info("exporting the embedding model to ONNX, once")
    command = [sys.executable, "-m", "hasten.embedder.export", str(data)]
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode == 0:
        return
    said = ended.stderr.strip().splitlines()
    raise EncoderError(said[-1] if said else f"exporting the embedding model ended with code {ended.returncode}")
