"""Loads the model that gives the second opinion; nothing of it is imported while `[cache] opinion` is empty."""

from pathlib import Path

from hasten.cache.opinions.model import Model, OpinionError

ADAPTERS = ("onnx", "sentence-transformers")


def load(named: str, threads: int = 1) -> Model:
    """The checked model of `<adapter>:<folder>`; blocks for a second or more. Raises OpinionError with one sentence.

    `onnx` is a folder with one graph and its tokenizer.json, run by ONNX Runtime; `sentence-transformers` any
    cross-encoder or entailment model that its CrossEncoder loads, run by torch.
    """
    adapter, _, place = named.partition(":")
    if adapter not in ADAPTERS or not place:
        raise OpinionError(f"[cache] opinion is {named!r}: it has to be {' or '.join(f'{a}:FOLDER' for a in ADAPTERS)}")
    if not Path(place).is_dir():
        raise OpinionError(f"[cache] opinion names {place}, which is no folder")
    try:
        return _made(adapter, Path(place), threads)
    except OpinionError:
        raise
    except Exception as error:
        raise OpinionError(f"the model in {place} cannot be used ({type(error).__name__})") from None


def _made(adapter: str, folder: Path, threads: int) -> Model:
    if adapter == "onnx":
        from hasten.cache.opinions.onnx_model import OnnxModel

        return OnnxModel(folder, threads)
    from hasten.cache.opinions.torch_model import TorchModel

    return TorchModel(folder, threads)


__all__ = ["Model", "OpinionError", "load"]
