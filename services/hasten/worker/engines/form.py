"""What llama.cpp is not asked: it prints what it cannot do to stderr, with the caller's words, and answers without it.

Pure, so that it can be tried without llama.cpp.
"""

import re
from collections.abc import Iterator
from typing import Any

from hasten.messages.generate import Generate
from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.forced import forced, insists
from hasten.worker.engines.gbnf import readable

DEEPEST, LONGEST = 16, 1000
"""How deep the groups of a pattern may lie in one another, and its characters."""
_DATA = frozenset({"const", "default", "enum", "examples"})
"""What these hold are values, not schemas."""
_PIECE = re.compile(
    r"""
    \\[.^$*+?()[\]{}|]                   # a character that is taken as it is
    | \[\^?(?:\\[\]\\-]|[^\]\\])+]      # a set
    | \((?!\?) | \(\?: | \)
    | [*+?|.]
    | \{[0-9]{1,4}(?:,[0-9]{0,4})?}
    | [^\\\[\](){}*+?|.^$\x00-\x1f]
    """,
    re.VERBOSE,
)


def check(request: Generate) -> None:
    """Raises EngineError(bad_request) that says what to do instead."""
    kind = (request.response_format or {}).get("type", "text")
    if kind not in ("text", "json_object", "json_schema"):
        raise _refused("response_format must be text, json_object or json_schema", "response_format")
    if not all(map(_is_function, request.tools or ())):
        raise _refused("a tool must be a function with a name", "tools")
    if insists(request):
        forced(request)
    grammar = request.extra.get("grammar", "")
    if not isinstance(grammar, str) or not readable(grammar):
        raise _refused(
            "the grammar cannot be read: it must be rules in llama.cpp's GBNF, each of them defined", "grammar"
        )
    for param, schema in _schemas(request):
        if not isinstance(schema, dict):
            raise _refused("a JSON schema must be an object", param)
        if not all(map(supported, _patterns(schema))):
            detail = r"a pattern must begin with ^, end with $ and write sets such as [0-9] for classes such as \d"
            raise _refused(detail, param)


def _is_function(tool: dict[str, Any]) -> bool:
    function = tool.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _refused(detail: str, param: str) -> EngineError:
    return EngineError("bad_request", detail, param=param)


def _schemas(request: Generate) -> Iterator[tuple[str, Any]]:
    form = request.response_format or {}
    for holder in (form, form.get("json_schema")):
        if isinstance(holder, dict) and holder.get("schema") is not None:
            yield "response_format", holder["schema"]
    if "json_schema" in request.extra:
        yield "json_schema", request.extra["json_schema"]
    for tool in request.tools or ():
        function = tool.get("function")
        if isinstance(function, dict) and function.get("parameters") is not None:
            yield "tools", function["parameters"]


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    """Every pattern in a schema, however deep it lies."""
    left: list[Any] = [schema]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            if isinstance(pattern := node.get("pattern"), str):
                yield pattern
            left += [value for name, value in node.items() if name not in _DATA]


def supported(pattern: str) -> bool:
    """Whether llama.cpp can turn a pattern into a grammar (what it is not known to is not supported)."""
    if not 2 <= len(pattern) <= LONGEST or not (pattern.startswith("^") and pattern.endswith("$")):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    at, end, depth = 1, len(pattern) - 1, 0
    while at < end:
        piece = _PIECE.match(pattern, at, end)
        if piece is None:
            return False
        depth += piece[0].startswith("(") - (piece[0] == ")")
        if depth > DEEPEST:
            return False
        at = piece.end()
    return True
