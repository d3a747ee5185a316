"""Opens a model that was exported to ONNX together with the tokenizer.json beside it."""

from pathlib import Path
from typing import Any

PADS = ("[PAD]", "<pad>")


def opened(folder: Path, threads: int) -> tuple[Any, Any]:
    """The session of the graph in `folder` or below it (`model.onnx`, or the only one), and the tokenizer there.

    Raises ImportError without onnxruntime or tokenizers, and ValueError with a sentence when the files are not there.
    """
    import onnxruntime
    from tokenizers import Tokenizer

    graph, vocabulary = only(folder, "model.onnx", "*.onnx"), only(folder, "tokenizer.json", "tokenizer.json")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    return session, Tokenizer.from_file(str(vocabulary))


def only(folder: Path, usual: str, pattern: str) -> Path:
    """The one file that matches, or the one of them with the usual name; raises ValueError."""
    found = sorted(folder.rglob(pattern))
    for paths in ([path for path in found if path.name == usual], found):
        if len(paths) == 1:
            return paths[0]
    raise ValueError(f"{folder} holds {len(found)} files {pattern}: one is needed, or one {usual}")


def padding(tokenizer: Any) -> tuple[int, str]:
    """The id and the text of what a tokenizer fills up with."""
    known = [(tokenizer.token_to_id(pad), pad) for pad in PADS]
    return next((found for found in known if found[0] is not None), (0, PADS[0]))
