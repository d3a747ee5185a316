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
    about transport and tenant, with the `x-hasten-*` headers in. `choices` is how many answers it wants, and
    `deadline_ms` counts from now."""

    body: dict[str, Any]
    model: str
    stream: bool
    include_usage: bool
    deadline_ms: int | None
    choices: int = 1


def ask_of(plain: dict[str, Any], headers: Mapping[str, str], tenant: str, *, most: int = 1) -> Ask:
    """Takes a decoded body and its headers apart; raises Failed for whatever is the caller's fault, more than `most`
    answers among it."""
    check_tenant(tenant, plain.get("tenant"), plain.get("tenant_id"))
    body = {name: value for name, value in plain.items() if name not in _NOT_ON_THE_BUS}
    policy = cache_policy(body.get("cache"), headers)
    if policy is not None:
        body["cache"] = policy
    if (deadline := headers.get("x-hasten-deadline-ms")) is not None:
        body["deadline_ms"] = _milliseconds(deadline)
    stream, include_usage = _transport(plain)
    request = parse_chat(body)
    if request.n > most:
        raise Failed("bad_request", f"n must be at most {most}", param="n")
    body.pop("n", None)
    return Ask(
        body=body,
        model=request.model,
        stream=stream,
        include_usage=include_usage,
        deadline_ms=request.deadline_ms,
        choices=request.n,
    )


def check_tenant(tenant: str, *claims: object) -> None:
    """Refuses a request that names another tenant than its key's; raises Failed(forbidden)."""
    if any(claim not in (None, tenant) for claim in claims):
        raise Failed.of(Failure(code="forbidden", detail="the API key belongs to another tenant than the one named"))


def cache_policy(given: Any, headers: Mapping[str, str]) -> dict[str, Any] | None:
    """The body's `cache` with what the headers say: `x-hasten-cache` before the body, the body before `Cache-Control`.

    Of `Cache-Control` three directives are heeded: no-store (`store` false), no-cache or max-age=0 (`mode` refresh)
    and max-age=N (`max_age_s`). Raises Failed(bad_request); None when nobody says anything.
    """
    if given is not None and not isinstance(given, dict):
        raise Failed("bad_request", "cache must be an object", param="cache")
    said = {name: value for name, value in (given or {}).items() if value is not None}
    policy = _controlled(headers.get("cache-control", "")) | said
    if (mode := headers.get("x-hasten-cache")) is not None:
        if mode not in ("auto", "exact", "off", "refresh"):
            raise Failed("bad_request", "x-hasten-cache must be auto, exact, off or refresh", param="x-hasten-cache")
        policy["mode"] = mode
    return policy or given


def _controlled(header: str) -> dict[str, Any]:
    """`Cache-Control` as fields of a cache policy; directives that we do not know, or cannot read, say nothing."""
    found: dict[str, Any] = {}
    for directive in header.lower().split(","):
        name, _, value = (part.strip() for part in directive.partition("="))
        seconds = value.strip('"')
        if name == "no-store":
            found["store"] = False
        elif name == "no-cache":
            found["mode"] = "refresh"
        elif name == "max-age" and seconds.isascii() and seconds.isdecimal() and len(seconds) < 12:
            found |= {"max_age_s": int(seconds)} if int(seconds) else {"mode": "refresh"}
    return found


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
