"""Failures as HTTP: the status, OpenAI's error object, and the headers that say when to come back."""

import math
from typing import Any

from hasten.messages.failure import RETRYABLE, Failure

STATUS = {
    "bad_request": 400,
    "context_overflow": 400,
    "unsupported": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "model_not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "too_large": 413,
    "unsupported_media_type": 415,
    "overloaded": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "cancelled": 499,
    "internal": 500,
    "upstream": 502,
    "incomplete": 502,
    "unavailable": 503,
    "draining": 503,
    "disconnected": 503,
    "deadline": 504,
}
"""Status of each failure code; `forbidden`, `method_not_allowed`, `request_timeout`, `unsupported_media_type`,
`rate_limit_exceeded` and `insufficient_quota` exist at this edge only."""
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_COME_BACK = frozenset({429, 503})
_LIMITS = frozenset({"rate_limit_exceeded", "insufficient_quota"})
"""Of the caller's own: they say themselves when it is worth to come back, if it ever is."""
RETRY_AFTER_MS = 1000
"""Said with 429 and 503 when nobody knows better."""


def status_of(failure: Failure) -> int:
    """The HTTP status of a failure; 500 for a code that is not known here."""
    return STATUS.get(failure.code, 500)


def error_object(failure: Failure) -> dict[str, Any]:
    """The body of an error response, and the data of an error frame on a stream: OpenAI's fields, and whether to ask
    again, when, which model failed and how many chunks had been sent, as far as that is known."""
    status = status_of(failure)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    kind = failure.code if failure.code == "insufficient_quota" else kind
    message = failure.detail or failure.code.replace("_", " ")
    error: dict[str, Any] = {"message": message, "type": kind, "param": failure.param, "code": failure.code}
    wait_ms = retry_after_ms(failure)
    more = {"retry_after_ms": wait_ms, "model": failure.model, "tokens_sent": failure.tokens_sent}
    known = {name: value for name, value in more.items() if value}
    return {"error": error | known | ({"retryable": True} if failure.code in RETRYABLE else {})}


def retry_after_ms(failure: Failure) -> int | None:
    """When to come back: what the failure says, else a second for an overload or outage, else None."""
    if failure.retry_after_ms:
        return failure.retry_after_ms
    return RETRY_AFTER_MS if status_of(failure) in _COME_BACK and failure.code not in _LIMITS else None


def error_headers(failure: Failure) -> dict[str, str]:
    """Headers of an error response. SDKs read `retry-after-ms` before `Retry-After`, which is whole seconds."""
    headers: dict[str, str] = {}
    if wait_ms := retry_after_ms(failure):
        headers |= {"Retry-After": str(math.ceil(wait_ms / 1000)), "retry-after-ms": str(wait_ms)}
    if failure.code == "insufficient_quota" or (failure.code in _LIMITS and not failure.retry_after_ms):
        headers["x-should-retry"] = "false"
    if failure.code == "unauthorized":
        headers["WWW-Authenticate"] = "Bearer"
    if failure.code in ("too_large", "request_timeout"):
        headers["Connection"] = "close"
    return headers
