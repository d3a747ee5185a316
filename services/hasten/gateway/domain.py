"""What an HTTP caller asks, taken apart: the body that goes on the bus, and how the answer is to travel."""

from collections.abc import Mapping
from typing import Any

import msgspec

from hasten.messages.chat import parse_chat
from hasten.messages.failure import Failed, Failure
from hasten.topics import BadName, checked

_NOT_ON_THE_BUS = frozenset({"stream", "stream_options", "tenant", "tenant_id"})


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One chat request of an HTTP caller. `body` is what is published: the caller's fields as they are, less those
    about transport and tenant, with the `x-hasten-*` headers in. `deadline_ms` counts from now."""

    body: dict[str, Any]
    model: str
    stream: bool
    include_usage: bool
    deadline_ms: int | None


def ask_of(plain: dict[str, Any], headers: Mapping[str, str], tenant: str) -> Ask:
    """Takes a decoded body and its headers apart; raises Failed for whatever is the caller's fault."""
    check_tenant(tenant, plain.get("tenant"), plain.get("tenant_id"))
    body = {name: value for name, value in plain.items() if name not in _NOT_ON_THE_BUS}
    if (mode := headers.get("x-hasten-cache")) is not None:
        body["cache"] = _with_mode(body.get("cache"), mode)
    if (deadline := headers.get("x-hasten-deadline-ms")) is not None:
        body["deadline_ms"] = _milliseconds(deadline)
    stream, include_usage = _transport(plain)
    request = parse_chat(body)
    return Ask(
        body=body,
        model=request.model,
        stream=stream,
        include_usage=include_usage,
        deadline_ms=request.deadline_ms,
    )


def check_tenant(tenant: str, *claims: object) -> None:
    """Refuses a request that names another tenant than its key's; raises Failed(forbidden)."""
    if any(claim not in (None, tenant) for claim in claims):
        raise Failed.of(Failure(code="forbidden", detail="the API key belongs to another tenant than the one named"))


def _with_mode(policy: Any, mode: str) -> dict[str, Any]:
    if mode not in ("auto", "exact", "off", "refresh"):
        raise Failed("bad_request", "x-hasten-cache must be auto, exact, off or refresh", param="x-hasten-cache")
    if policy is not None and not isinstance(policy, dict):
        raise Failed("bad_request", "cache must be an object", param="cache")
    return {**(policy or {}), "mode": mode}


def _milliseconds(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 12):
        raise Failed(
            "bad_request", "x-hasten-deadline-ms must be whole milliseconds from now", param="x-hasten-deadline-ms"
        )
    return int(value)


def _transport(plain: dict[str, Any]) -> tuple[bool, bool]:
    """`stream` and `stream_options.include_usage`."""
    options = plain.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Failed("bad_request", "stream_options must be an object", param="stream_options")
    include_usage = options.get("include_usage")
    for param, value in (("stream", plain.get("stream")), ("stream_options", include_usage)):
        if value is not None and not isinstance(value, bool):
            raise Failed("bad_request", f"{param} holds something else than true or false", param=param)
    return bool(plain.get("stream")), bool(include_usage)


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """The caller's own request id, if it may be part of a subject; one that may not is not used."""
    try:
        return checked("request id", headers.get("x-request-id", ""))
    except BadName:
        return None
