"""What the embedded engine refuses before llama.cpp prints it: each refusal names the option and says what to do."""

from typing import Any

import pytest

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.form import check, supported


def _asked(**options: Any) -> Generate:
    return Generate(messages=[Turn(role="user", content="hi")], **options)


def _form(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"max_tokens": 10**18}, "max_tokens"),
        ({"extra": {"grammar": "root ::= ("}}, "grammar"),
        ({"response_format": _form(7)}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": []}}, "response_format"),
        ({"response_format": _form({"type": "string", "pattern": "a secret"})}, "response_format"),
        ({"response_format": _form({"properties": {"a": {"anyOf": [{"pattern": "^(?=a)$"}]}}})}, "response_format"),
        ({"extra": {"json_schema": {"pattern": r"^\bfoo$"}}}, "json_schema"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"pattern": "x"}}}]}, "tools"),
    ],
)
def test_it_is_refused_by_name_without_its_own_words(options: dict[str, Any], param: str) -> None:
    with pytest.raises(EngineError) as caught:
        check(_asked(**options))
    assert (caught.value.code, caught.value.param) == ("bad_request", param)
    assert "secret" not in caught.value.detail


def test_what_llama_can_do_is_not_refused() -> None:
    schema = {
        "properties": {"pattern": {"type": "string"}, "zip": {"pattern": "^[0-9]{4}$"}},
        "const": {"pattern": "("},
    }
    check(_asked(max_tokens=2**31 - 1, response_format=_form(schema)))
    check(_asked(response_format={"type": "json_object"}))
    check(_asked(response_format={"type": "text"}, extra={"top_k": 1}))


@pytest.mark.parametrize(
    "pattern",
    ["^$", "^a+$", "^(ab|c)*$", "^(?:ab)?$", r"^[A-Z]{2,5}-[0-9]{1,}$", r"^[^\]\\x\-]\.$", r"^\(a\).$", "^é$"],
)
def test_patterns_that_are_supported(pattern: str) -> None:
    assert supported(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *["", "^", "a", "^a", "a$", "^(a$", "^a)$", r"^a\$", "^a^b$", "^a$b$", r"^(a)\1$", "^(?i:a)$", "^(?<n>a)$"],
        *[r"^\p{L}$", r"^\d$", r"^[\d]$", r"^\\$", r"^[\^]$", "^[$", "^*a$", "^a{x}$", "^a{9999999}$", "^\n$"],
        "^" + "(" * 40 + "a" + ")" * 40 + "$",
    ],
)
def test_patterns_that_are_not(pattern: str) -> None:
    assert not supported(pattern)
