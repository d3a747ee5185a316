"""POST /v1/embeddings: texts to vectors in OpenAI's form, in batches that fit into a message."""

import array
import base64
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.gateway.access import caller_of
from hasten.gateway.body import Gone, read_object
from hasten.gateway.domain import check_tenant
from hasten.gateway.meter import estimated_tokens
from hasten.gateway.rates import Rates
from hasten.gateway.settings import Settings
from hasten.keys import KeyRing
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed, Failure

MAX_TEXTS = 2048
BATCH_TEXTS = 32
"""32 vectors of 4,096 dimensions are 700 kB of base64: inside the 1 MB that a NATS server takes by default."""
BATCH_CHARS = 200_000
"""At most 800 kB of UTF-8; a single longer text is sent alone and refused by the bus if it is too large."""


class EmbeddingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """What OpenAI's clients send. `model` is `auto` or the name of the embedder's model."""

    input: str | list[str]
    model: str = "auto"
    encoding_format: str = "float"
    dimensions: int | None = None
    user: str | None = None


def parse(plain: dict[str, Any]) -> tuple[EmbeddingsBody, list[str]]:
    """The body and its texts; a null counts as absent. Raises Failed(bad_request) that names the field."""
    try:
        body = msgspec.convert({name: value for name, value in plain.items() if value is not None}, EmbeddingsBody)
    except msgspec.ValidationError as error:
        detail = str(error)
        if "$.input" in detail or "`input`" in detail:
            detail = "input must be a string or a list of strings; token arrays are not taken"
        param = next((name for name in EmbeddingsBody.__struct_fields__ if f"`$.{name}" in str(error)), "input")
        raise Failed("bad_request", detail, param=param) from None
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not texts or len(texts) > MAX_TEXTS or not all(texts):
        raise Failed("bad_request", f"input must hold 1 to {MAX_TEXTS} texts, none of them empty", param="input")
    if body.encoding_format not in ("float", "base64"):
        raise Failed("bad_request", "encoding_format must be float or base64", param="encoding_format")
    return body, texts


def batches(texts: list[str]) -> Iterator[list[str]]:
    """The texts in order, in lists of at most `BATCH_TEXTS` and `BATCH_CHARS`."""
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or chars + len(text) > BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    yield batch


def check_model(body: EmbeddingsBody, found: Embedded) -> None:
    """Refuses vectors of another model or size than asked for; raises Failed."""
    if body.model not in ("auto", found.model, found.model.rpartition("/")[2]):
        raise Failed("model_not_found", f"texts are embedded by {found.model} (or auto) here", param="model")
    if body.dimensions not in (None, found.dim):
        raise Failed("unsupported", f"vectors of {found.model} have {found.dim} dimensions", param="dimensions")


def rows(found: Embedded, start: int, encoding_format: str) -> list[msgspec.Raw]:
    """The `embedding` objects of one batch, encoded, numbered from `start`. `truncated` marks those too long."""
    encoded = []
    for offset, vector in enumerate(found.vectors):
        value: Any = base64.b64encode(vector).decode() if encoding_format == "base64" else floats(vector)
        cut = {"truncated": True} if offset < len(found.truncated) and found.truncated[offset] else {}
        row = {"object": "embedding", "index": start + offset, "embedding": value, **cut}
        encoded.append(msgspec.Raw(msgspec.json.encode(row)))
    return encoded


def floats(vector: bytes) -> list[float]:
    """Little-endian float32 values as numbers."""
    values = array.array("f", vector)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


class Embeddings:
    """The endpoint, as an ASGI application."""

    def __init__(self, bus: Bus, settings: Settings, keys: KeyRing, rates: Rates) -> None:
        self._bus, self._settings, self._keys, self._rates = bus, settings, keys, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; raises Failed."""
        headers = Headers(scope=scope)
        caller = caller_of(headers, self._keys)
        tenant = caller.tenant
        limit, timeout_s = self._settings.max_body_bytes, self._settings.read_timeout_s
        try:
            plain = await read_object(headers, receive, limit=limit, timeout_s=timeout_s)
        except Gone:
            return
        check_tenant(tenant, plain.get("tenant"), plain.get("tenant_id"))
        body, texts = parse(plain)
        grant, used = await self._rates.admit(caller, scope, tokens=estimated_tokens(plain)), 0
        try:
            answer = await self._embed(tenant, body, texts)
            used = answer["usage"]["total_tokens"]
        finally:
            grant.end(tokens=used)
        await Response(msgspec.json.encode(answer), media_type="application/json")(scope, receive, send)

    async def _embed(self, tenant: str, body: EmbeddingsBody, texts: list[str]) -> dict[str, Any]:
        deadline_ms = now_ms() + self._settings.deadline_s * 1000
        data: list[msgspec.Raw] = []
        tokens, model = 0, ""
        for batch in batches(texts):
            found = await self._bus.request(EMBED, Embed(texts=batch), deadline_ms=deadline_ms, tenant=tenant)
            if isinstance(found, Failure):
                raise Failed.of(msgspec.structs.replace(found, param="input" if found.param else None))
            check_model(body, found)
            data += rows(found, len(data), body.encoding_format)
            tokens, model = tokens + sum(found.tokens), found.model
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": model, "usage": usage}
