"""The embedded model as a Hugging Face checkpoint, the form that vLLM reads: `python tests/peers/checkpoint.py DIR`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from hasten.models import LARGE, SMALL
from hasten.weights import folder, prepare

DATA = Path(__file__).parents[2] / ".hasten"
NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
}
"""The tensors of GGUF's architecture `llama` by the names they have in a checkpoint."""


def checkpoint(data: Path) -> Path:
    """The checkpoint in a data folder, made there (three seconds) if it is missing."""
    target = folder(data) / "smollm2-135m-checkpoint"
    if not (target / "config.json").is_file():
        write(data, target)
    return target


def write(data: Path, target: Path) -> None:
    """Makes it from the F16 file; the configuration comes last, so that a folder which has one is whole."""
    prepare(data, lambda line: None)
    source = gguf.GGUFReader(folder(data) / LARGE.engine.path)
    target.mkdir(parents=True, exist_ok=True)
    save_file(dict(_tensors(source)), target / "model.safetensors", metadata={"format": "pt"})
    shipped = folder(data) / SMALL.tokenizer
    (target / "tokenizer.json").write_bytes((shipped / "tokenizer.json").read_bytes())
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _token(source, "bos"),
        "eos_token": _token(source, "eos"),
        "pad_token": _token(source, "eos"),
        "model_max_length": _field(source, "context_length"),
        "chat_template": (shipped / "chat_template.jinja").read_text(),
    }
    (target / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (target / "config.json").write_text(json.dumps(_config(source)))


def _tensors(source: Any) -> Iterator[tuple[str, Any]]:
    heads = {"attn_q": _field(source, "attention.head_count"), "attn_k": _field(source, "attention.head_count_kv")}
    for tensor in source.tensors:
        *layer, name, _ = tensor.name.split(".")
        values = tensor.data.astype(np.float16)
        if name in heads:
            values = _unpermuted(values, heads[name])
        place = f"model.layers.{layer[1]}.{NAMES[name]}" if layer else NAMES[name]
        yield f"{place}.weight", np.ascontiguousarray(values)


def _unpermuted(values: Any, heads: int) -> Any:
    """Rotary halves side by side, as checkpoints have them; GGUF interleaves them."""
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _config(source: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": _field(source, "embedding_length"),
        "intermediate_size": _field(source, "feed_forward_length"),
        "num_hidden_layers": _field(source, "block_count"),
        "num_attention_heads": _field(source, "attention.head_count"),
        "num_key_value_heads": _field(source, "attention.head_count_kv"),
        "rms_norm_eps": _field(source, "attention.layer_norm_rms_epsilon"),
        "rope_theta": _field(source, "rope.freq_base"),
        "max_position_embeddings": _field(source, "context_length"),
        "vocab_size": len(source.fields["tokenizer.ggml.tokens"].contents()),
        "bos_token_id": source.fields["tokenizer.ggml.bos_token_id"].contents(),
        "eos_token_id": source.fields["tokenizer.ggml.eos_token_id"].contents(),
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
    }


def _field(source: Any, name: str) -> Any:
    return source.fields[f"llama.{name}"].contents()


def _token(source: Any, kind: str) -> str:
    tokens = source.fields["tokenizer.ggml.tokens"].contents()
    return str(tokens[source.fields[f"tokenizer.ggml.{kind}_token_id"].contents()])


if __name__ == "__main__":
    write(DATA, Path(sys.argv[1]))
