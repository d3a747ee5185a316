"""What a server's refusal means to whoever asked; its own words may quote the prompt or a key and go no further."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from hasten.messages.failure import Code
from hasten.messages.generate import Generate
from hasten.worker.engines.engine import EngineError

LONGEST_RETRY_MS = 600_000
RETRY_MS = 1000
_WORD = re.compile(r"[A-Za-z_]{1,48}")
_PARAMS = frozenset(Generate.__struct_fields__)
_OVERFLOWS = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_CALLERS = {400: "bad_request", 413: "too_large", 422: "bad_request", 429: "overloaded"}
"""Whose fault a status is: the caller's here; all others (a wrong key or address among them) are the server's."""


def refusal(error: Any, status: int | None = None, headers: Mapping[str, str] | None = None) -> EngineError:
    """The failure that an error object stands for, in a stream or (with its status and headers) as a response."""
    plain: dict[str, Any] = error if isinstance(error, dict) else {}
    if status is None:
        status = plain["code"] if isinstance(plain.get("code"), int) else 502
    words = [word for key in ("type", "code") if (word := _word(plain.get(key)))]
    if _OVERFLOWS & set(words):
        return EngineError("context_overflow", _overflow(plain))
    code: Code = _CALLERS.get(status, "upstream")  # type: ignore[assignment]
    param = plain.get("param") if plain.get("param") in _PARAMS else None
    what = ", ".join([f"status {status}", *words, *([param] if param else [])])
    retry = retry_after_ms(headers or {})
    if retry is None and code in ("overloaded", "upstream"):
        retry = RETRY_MS
    return EngineError(code, f"the model server refused the request ({what})", retry_after_ms=retry, param=param)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _overflow(plain: dict[str, Any]) -> str:
    tokens, window = plain.get("n_prompt_tokens"), plain.get("n_ctx")
    if isinstance(tokens, int) and isinstance(window, int):
        return f"the prompt has {tokens} tokens, the model takes {window}"
    return "the prompt is longer than the model's context window"


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """When to come back: `retry-after-ms`, or `retry-after` in seconds or as a date; None when there is neither."""
    for name, factor in (("retry-after-ms", 1.0), ("retry-after", 1000.0)):
        if (given := headers.get(name)) and (number := _number(given)) is not None:
            return round(min(max(0.0, number * factor), LONGEST_RETRY_MS))
    try:
        left = parsedate_to_datetime(headers.get("retry-after", "")) - datetime.now(UTC)
    except (TypeError, ValueError):
        return None
    return round(min(max(0.0, left.total_seconds() * 1000), LONGEST_RETRY_MS))


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text) else None
