"""What a server's refusal, or its silence, means to whoever asked: the one place where its errors become ours.

Its own words may quote the prompt or a key: they are read for numbers and go no further.
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from hasten.messages.failure import Code
from hasten.messages.generate import Generate
from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.sse import BadStream

LONGEST_RETRY_MS = 600_000
RETRY_MS = 1000
_WORD = re.compile(r"[A-Za-z_]{1,48}")
_PARAMS = frozenset(Generate.__struct_fields__)
_OVERFLOWS = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_OVERFLOW = re.compile(r"maximum context length is (\d{1,9}) tokens(?:.*?\b(\d{1,9}) input tokens)?", re.DOTALL)
"""vLLM's words for it, which has no code of its own."""
_SOON = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(\d{1,9})m(?!s))?\s*(?:(\d+(?:\.\d+)?)\s*(ms|s)\b)?", re.IGNORECASE
)
_SECONDS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*s?\s*")
_CALLERS = {400: "bad_request", 413: "too_large", 422: "bad_request", 429: "overloaded"}
"""Whose fault a status is: the caller's here; all others (a wrong key or address among them) are the server's."""


def refusal(error: Any, status: int | None = None, headers: Mapping[str, str] | None = None) -> EngineError:
    """The failure that an error object stands for, in a stream or (with its status and headers) as a response."""
    plain: dict[str, Any] = error if isinstance(error, dict) else {}
    if status is None:
        status = plain["code"] if isinstance(plain.get("code"), int) else 502
    words = [word for key in ("type", "code") if (word := _word(plain.get(key)))]
    if _OVERFLOWS & set(words) or (status == 400 and _OVERFLOW.search(str(plain.get("message")))):
        return EngineError("context_overflow", _overflow(plain))
    code: Code = _CALLERS.get(status, "upstream")  # type: ignore[assignment]
    param = named if isinstance(named := plain.get("param"), str) and named in _PARAMS else None
    what = ", ".join([f"status {status}", *words, *([param] if param else [])])
    retry = retry_after_ms(headers or {}, plain)
    if retry is None and code in ("overloaded", "upstream"):
        retry = RETRY_MS
    return EngineError(code, f"the model server refused the request ({what})", retry_after_ms=retry, param=param)


def trouble(error: Exception) -> Exception:
    """What an exception of an exchange means; itself when it is none of the server's or the connection's."""
    match error:
        case BadStream():
            return EngineError("upstream", str(error), retry_after_ms=RETRY_MS)
        case httpx.HTTPError():
            cause = error.__cause__ or error.__context__
            certificate = isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY" in str(error)
            what = "its certificate is not trusted: see ca_file" if certificate else type(error).__name__
            detail = f"the connection to the model server failed ({what})"
            return EngineError("upstream", detail, retry_after_ms=RETRY_MS)
    return error


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _overflow(plain: dict[str, Any]) -> str:
    tokens, window = plain.get("n_prompt_tokens"), plain.get("n_ctx")
    if found := _OVERFLOW.search(str(plain.get("message"))):
        window, tokens = int(found[1]), int(found[2]) if found[2] else None
    if isinstance(tokens, int) and isinstance(window, int):
        return f"the prompt has {tokens} tokens, the model takes {window}"
    return "the prompt is longer than the model's context window"


def retry_after_ms(headers: Mapping[str, str], error: Mapping[str, Any]) -> int | None:
    """When to come back, None when nobody said.

    From `retry-after-ms`, `retry-after` in seconds or as a date, or the error object: `retry_after_ms`, `retry_after`,
    a `retryDelay` among its details, or a time in its words. No time in the past and none beyond ten minutes.
    """
    for given in _given(headers, error):
        if given is not None:
            return round(min(max(0.0, given), LONGEST_RETRY_MS))
    return None


def _given(headers: Mapping[str, str], error: Mapping[str, Any]) -> Iterator[float | None]:
    yield _times(headers.get("retry-after-ms"), 1)
    yield _times(headers.get("retry-after"), 1000)
    yield _until(headers.get("retry-after", ""))
    yield _times(error.get("retry_after_ms"), 1)
    yield _times(error.get("retry_after"), 1000)
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        yield _times(detail.get("retryDelay"), 1000) if isinstance(detail, dict) else None
    yield _said(str(error.get("message")))


def _times(value: Any, factor: float) -> float | None:
    """A number, or a text of one (with or without an s), times `factor`."""
    found = _SECONDS.fullmatch(str(value)) if isinstance(value, int | float | str) else None
    return float(found[1]) * factor if found else None


def _until(text: str) -> float | None:
    try:
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds() * 1000
    except (TypeError, ValueError, OverflowError):
        return None


def _said(message: str) -> float | None:
    """A time such as `try again in 1m20.5s` or `in 120ms`, in ms."""
    found = _SOON.search(message)
    if not found or not (found[1] or found[2]):
        return None
    rest = float(found[2] or 0) * (1 if found[3] and found[3].lower() == "ms" else 1000)
    return int(found[1] or 0) * 60_000 + rest
