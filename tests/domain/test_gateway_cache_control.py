"""What a caller of the gateway says of the cache: the body before `Cache-Control`, a header of our own before both."""

from typing import Any

import pytest

from hasten.gateway.domain import ask_of

ASKED = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("header", "body", "policy"),
    [
        ("no-store", None, {"store": False}),
        ("no-cache", None, {"mode": "refresh"}),
        ("max-age=0", None, {"mode": "refresh"}),
        ("max-age=60", None, {"max_age_s": 60}),
        ('No-Store , Max-Age="60"', {"tags": ["a"]}, {"store": False, "max_age_s": 60, "tags": ["a"]}),
        ("no-cache, no-store", {"mode": "exact", "store": True}, {"mode": "exact", "store": True}),
        ("max-age=60", {"max_age_s": 5}, {"max_age_s": 5}),
        ("only-if-cached, max-age=soon, max-stale=9, max-age=-1, max-age=٣", None, None),
        ("no-cache", {"mode": None, "tags": ["a"]}, {"mode": "refresh", "tags": ["a"]}),
        ("", {}, {}),
    ],
)
def test_cache_control_says_what_the_body_does_not(header: str, body: Any, policy: Any) -> None:
    plain = ASKED if body is None else {**ASKED, "cache": body}
    assert ask_of(plain, {"cache-control": header}, "acme").body.get("cache") == policy


def test_the_header_of_our_own_comes_before_all() -> None:
    headers = {"cache-control": "no-cache, no-store", "x-hasten-cache": "exact"}
    assert ask_of(ASKED, headers, "acme").body["cache"] == {"mode": "exact", "store": False}
