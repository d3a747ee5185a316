"""What a request needs of a model: one rule for whoever chooses a worker and for the worker itself."""

from typing import Any

import pytest

from hasten.messages.chat import parse_chat
from hasten.messages.failure import Failed
from hasten.messages.generate import Generate
from hasten.messages.needs import needs_of
from hasten.orchestrator.domain import plan_of
from hasten.worker.domain import check


def _body(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts) or "hi"}], **fields}


TOOL = {"type": "function", "function": {"name": "f"}}
CASES: list[tuple[dict[str, Any], list[str]]] = [
    (_body(), []),
    (_body(tools=[]), []),
    (_body(tools=[TOOL]), ["tools"]),
    (_body(response_format={"type": "text"}), []),
    (_body(response_format={}), []),
    (_body(response_format={"type": "json_object"}), ["json"]),
    (_body(response_format={"type": "json_schema", "json_schema": {}}), ["json"]),
    (_body(response_format={"type": "grammar"}), ["json"]),
    (_body(logprobs=False, top_logprobs=0), []),
    (_body({"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}), []),
    (_body({"type": "image_url"}), ["vision"]),
    (_body({"type": "input_image"}), ["vision"]),
    (_body({"type": "input_audio"}), ["vision"]),
    (_body({"type": "file"}), ["vision"]),
    (_body({"type": "image_url"}, tools=[TOOL], response_format={"type": "json_object"}), ["tools", "json", "vision"]),
]


@pytest.mark.parametrize(("body", "needs"), CASES)
def test_the_router_is_asked_for_just_what_the_worker_insists_on(body: dict[str, Any], needs: list[str]) -> None:
    request = parse_chat(body)
    assert plan_of(request).needs == needs
    names = ("messages", "tools", "response_format", "logprobs", "top_logprobs")
    generate = Generate(**{name: getattr(request, name) for name in names})
    check(generate, needs, continues=False)
    for need in needs:
        with pytest.raises(Failed):
            check(generate, [other for other in needs if other != need], continues=False)


def test_every_turn_is_looked_at() -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    messages = parse_chat({"messages": [picture, {"role": "user", "content": "and now?"}]}).messages
    assert needs_of(messages, tools=None, response_format=None, logprobs=None, top_logprobs=None) == ["vision"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"mode": "on"}, "cache.mode must be auto, exact, off or refresh"),
        ({"scope": "all"}, "cache.scope must be tenant or user"),
        ({"scop": "user"}, "cache has a field that is not known; it may have mode, tags, max_age_s, ttl_s, "),
        ({"ttl_s": -1}, "cache.ttl_s must be at least 0"),
        ({"max_age_s": -0.5}, "cache.max_age_s must be at least 0"),
    ],
)
def test_a_wrong_cache_policy_says_what_is_right(policy: dict[str, object], said: str) -> None:
    with pytest.raises(Failed, match=said):
        parse_chat({"messages": [{"role": "user", "content": "hi"}], "cache": policy})
