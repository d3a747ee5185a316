"""What the embedded engine refuses before llama.cpp prints it: each refusal names the option and says what to do."""

from typing import Any

import pytest

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.form import check, supported
from hasten.worker.engines.gbnf import readable


def _asked(**options: Any) -> Generate:
    return Generate(messages=[Turn(role="user", content="hi")], **options)


def _form(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"extra": {"grammar": "root ::= ( secret"}}, "grammar"),
        ({"extra": {"grammar": 7}}, "grammar"),
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
    check(_asked(response_format=_form(schema)))
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
        "^" + "a" * 1000 + "$",
        "^" + "(" * 40 + "a" + ")" * 40 + "$",
    ],
)
def test_patterns_that_are_not(pattern: str) -> None:
    assert not supported(pattern)


@pytest.mark.parametrize(
    "grammar",
    [
        "",
        'root ::= "yes" | "no"',
        "root ::= [a-z]+ # a comment\n",
        'root ::= (word "," \n  word)* end?\r\nword ::= [^\\]a-]{2,5} .\n\n# the end\nend ::= "\\x41\\u00e9\\"" {3}',
        'root ::=\n  "a" |\n  "b"',
        "root ::=",
    ],
)
def test_grammars_that_can_be_read(grammar: str) -> None:
    assert readable(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        *["root", "root :=", "root ::= (", "root ::= )", 'root ::= "a', "root ::= [a", "root ::= []", "root ::= other"],
        *["root ::= *", 'root ::= ""*', 'root ::= "a"{', 'root ::= "a"{x}', 'root ::= "a"{1,9999}', 'root ::= "\\q"'],
        *["root ::= my_rule", 'root ::= "a" !', 'root ::= "a"\n| "b"', "root ::= " + "(" * 99 + '"a"' + ")" * 99],
        "root # " + "# " * 5000,
    ],
)
def test_grammars_that_cannot(grammar: str) -> None:
    assert not readable(grammar)


TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("options", "code", "param"),
    [
        ({"response_format": {"type": "grammar"}}, "bad_request", "response_format"),
        ({"tools": [{"type": "function"}]}, "bad_request", "tools"),
        ({"tools": [TOOL], "tool_choice": "any"}, "bad_request", "tool_choice"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "bad_request",
            "tool_choice",
        ),
    ],
)
def test_what_llama_would_leave_out_in_silence_is_refused(options: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(EngineError) as caught:
        check(Generate(messages=[Turn(role="user", content="Hi")], **options))
    assert (caught.value.code, caught.value.param) == (code, param)


def test_tools_that_a_model_may_or_must_call_are_not_refused() -> None:
    for choice in (None, "auto", "none", "required", {"type": "function", "function": {"name": "f"}}):
        check(Generate(messages=[Turn(role="user", content="Hi")], tools=[TOOL], tool_choice=choice))
