"""Loads the model that reranks; nothing of it is imported while `[retriever] rerank` is empty."""

from pathlib import Path

from hasten.retriever.rerankers.model import Model, RerankError, relevant_label

ADAPTERS = ("onnx", "sentence-transformers")


def check(named: str) -> None:
    """Raises RerankError for a setting that names no model."""
    adapter, _, place = named.partition(":")
    if adapter not in ADAPTERS or not place:
        raise RerankError(
            f"[retriever] rerank is {named!r}: it has to be {' or '.join(f'{a}:FOLDER' for a in ADAPTERS)}"
        )


def load(named: str, window: int, threads: int) -> tuple[Model, int]:
    """The model of `<adapter>:<folder>`, and which of its outputs says that a passage is relevant; blocks for seconds.

    `onnx` is a folder with one graph and its tokenizer.json, run by ONNX Runtime; `sentence-transformers` any
    cross-encoder that its CrossEncoder loads, by folder or by a name that is on this machine already, run by torch:
    nothing is downloaded. Raises RerankError with one sentence.
    """
    check(named)
    adapter, _, place = named.partition(":")
    try:
        made = _made(adapter, place, window, threads)
        return made, relevant_label(made)
    except RerankError:
        raise
    except Exception as error:
        raise RerankError(f"the reranking model {place} cannot be used ({type(error).__name__})") from None


def _made(adapter: str, place: str, window: int, threads: int) -> Model:
    if adapter == "onnx":
        from hasten.retriever.rerankers.onnx_model import OnnxModel

        return OnnxModel(Path(place), window, threads)
    from hasten.retriever.rerankers.torch_model import TorchModel

    return TorchModel(place, window, threads)


__all__ = ["Model", "RerankError", "check", "load", "relevant_label"]
