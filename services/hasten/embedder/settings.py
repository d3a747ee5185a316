"""What the operator can set of the embedder."""

import msgspec

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The embedder's limits.

    `model` is all-MiniLM-L6-v2, which comes with the extra `embedded` and is run by ONNX Runtime, or any other
    sentence-transformers model by name or path, which is run by torch. `data` is the folder for the export. `threads`
    is what one batch may use. `batch_tokens` is the size of a batch, padding included: a text that arrives while a
    batch runs waits for it, and beyond 128 tokens a larger batch saves nothing (a full one takes about 20 ms).
    `max_texts` and `max_chars` (per text) bound one request, `max_waiting` the texts in line before it is overloaded;
    `retry_after_ms` is the advice then. `related_margin` is by how much a related pair of sentences must score above
    an unrelated one (cosine) for the service to start.
    """

    model: str = DEFAULT_MODEL
    data: str = ".hasten"
    threads: int = 1
    batch_tokens: int = 128
    max_texts: int = 256
    max_chars: int = 65_536
    max_waiting: int = 8192
    retry_after_ms: int = 250
    related_margin: float = 0.15
