"""The form of OpenAI's chat body beyond the types of its fields: what nobody could answer is refused by its name here,
before anybody is asked, and several spellings of one thing become one. Pure."""

from typing import TYPE_CHECKING, Any

from hasten.messages.failure import Failed

if TYPE_CHECKING:
    from hasten.messages.chat import ChatRequest

TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The content parts that are text, and the field that holds it."""
_DEPRECATED = {
    "functions": "is not served: give tools",
    "function_call": "is not served: give tool_choice",
    "audio": "is not served: answers are text",
}
_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "parallel_tool_calls": bool,
    "reasoning_effort": str,
    "verbosity": str,
    "web_search_options": dict,
    "prediction": dict,
    "logit_bias": (dict, list),
    "modalities": list,
    "metadata": dict,
    "store": bool,
    "service_tier": str,
    "prompt_cache_key": str,
    "safety_identifier": str,
}
"""The fields of OpenAI's that are no fields of ours, so that they go on to the engine, and what they hold. A null says
nothing."""
_WITHOUT_TOOLS = {"tool_choice": ("auto", "none"), "parallel_tool_calls": (True, False)}
"""What says nothing where there are no tools."""
_SAID_NOTHING = ("refusal", "annotations", "audio", "function_call", "reasoning_content")
"""What clients repeat, empty, of an answer that they have been given."""

MOST_ALTERNATIVES = 20
"""As many as OpenAI tells of beside each token of an answer."""
LARGEST = 2**53
"""Above it JSON's integers are no longer exact, and floats run out soon."""


def refuse(param: str, rule: str) -> Failed:
    """The failure of a field that breaks a rule."""
    return Failed("bad_request", f"{param} {rule}", param=param)


def normal_turn(plain: dict[str, Any]) -> dict[str, Any]:
    """One message with each part of text as `text`, and without what an answer's empty fields say; a refusal is what
    was answered."""
    turn = {name: value for name, value in plain.items() if name not in _SAID_NOTHING or value}
    if turn.get("tool_calls") == []:
        del turn["tool_calls"]
    if isinstance(refusal := turn.get("refusal"), str):
        turn["content"] = turn.get("content") or refusal
        del turn["refusal"]
    if isinstance(parts := turn.get("content"), list):
        turn["content"] = [_normal_part(part) for part in parts]
    return turn


def _normal_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    field = TEXT_PARTS.get(kind) if isinstance(kind, str) else None
    if field is None or kind == "text" or not isinstance(part.get(field), str):
        return part
    return {"type": "text", "text": part[field]}


def normal_options(plain: dict[str, Any]) -> dict[str, Any]:
    """A body without the nulls, the empty lists and the empty texts by which clients say nothing: some servers refuse
    them."""
    nothing = {name for name in (*_OPTIONS, *_DEPRECATED) if name in plain and plain[name] is None}
    nothing |= {name for name in ("tools", "functions") if plain.get(name) == []}
    made = {name: value for name, value in plain.items() if name not in nothing}
    if made.get("tools") is None:
        made = {name: value for name, value in made.items() if value not in _WITHOUT_TOOLS.get(name, ())}
    if made.get("logprobs") is False:
        del made["logprobs"]
    if isinstance(stop := made.get("stop"), list):
        made["stop"] = [one for one in stop if one != ""] or None
    elif stop == "":
        del made["stop"]
    return made


def check_options(extra: dict[str, Any]) -> None:
    """Raises Failed for a field of OpenAI's that nobody can honour, or that holds something else than it should."""
    for name, value in extra.items():
        if name in _DEPRECATED:
            raise Failed("unsupported", f"{name} {_DEPRECATED[name]}", param=name)
        if name in _OPTIONS and not isinstance(value, _OPTIONS[name]):
            raise refuse(name, "holds a value of another type than OpenAI's")
    if extra.get("modalities", ["text"]) != ["text"]:
        raise Failed("unsupported", "modalities can be text only: answers are text", param="modalities")


def check_turn(
    at: int, role: str, content: Any, tool_calls: list[dict[str, Any]] | None, extra: dict[str, Any]
) -> None:
    """Raises Failed for a message that says nothing, or says it in a form that nobody reads."""
    where = f"messages[{at}]"
    if "function_call" in extra:
        raise Failed(
            "unsupported", f"{where}.function_call is not served: give tool_calls", param=f"{where}.function_call"
        )
    if content is None and not (role == "assistant" and tool_calls):
        raise refuse(f"{where}.content", "must be text or content parts")
    if content == [] or (content is not None and not isinstance(content, str | list)):
        raise refuse(f"{where}.content", "must have at least one part")
    for number, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type")
        if not isinstance(kind, str):
            raise refuse(f"{where}.content[{number}].type", "must say what the part is")
        if kind == "text" and not isinstance(part.get("text"), str):
            raise refuse(f"{where}.content[{number}].text", "must be text")
    for number, call in enumerate(tool_calls or ()):
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise refuse(f"{where}.tool_calls[{number}].function", "must have the name of a function")
        if not isinstance(function.get("arguments", ""), str):
            raise refuse(f"{where}.tool_calls[{number}].function.arguments", "must be JSON as text")


def check_tools(tools: list[dict[str, Any]] | None, choice: str | dict[str, Any] | None) -> None:
    """Raises Failed for a tool that is no function, and for a choice of one that is not there."""
    names = [_name_of(at, tool) for at, tool in enumerate(tools or ())]
    if choice is None:
        return
    if not names:
        raise refuse("tool_choice", "needs tools")
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise refuse("tool_choice", "must be auto, none, required or a function")
    elif choice.get("type") == "function":
        function = choice.get("function")
        if not isinstance(function, dict) or function.get("name") not in names:
            raise refuse("tool_choice", "must name a function that is in tools")


def _name_of(at: int, tool: dict[str, Any]) -> str:
    if tool.get("type", "function") != "function":
        raise Failed("unsupported", f"tools[{at}].type can be function only", param=f"tools[{at}].type")
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise refuse(f"tools[{at}].function", "must have a name")
    if not isinstance(function.get("parameters") or {}, dict):
        raise refuse(f"tools[{at}].function.parameters", "must be a JSON schema")
    return name


def check_format(form: dict[str, Any] | None) -> None:
    """Raises Failed for a response format without a kind, or without the schema that it promises."""
    if not form:
        return
    if not isinstance(form.get("type"), str):
        raise refuse("response_format.type", "must be text, json_object or json_schema")
    if form["type"] == "json_schema" and not any(
        isinstance(form.get(name), dict) for name in ("json_schema", "schema")
    ):
        raise refuse("response_format.json_schema", "must hold a name and a schema")


def check_ranges(request: "ChatRequest") -> None:
    """Raises Failed for a number that no engine could make sense of."""
    for name in ("max_tokens", "n", "deadline_ms", "priority", "seed"):
        if abs(getattr(request, name) or 0) > LARGEST:
            raise refuse(name, f"must be at most {LARGEST}")
    if request.max_tokens is not None and request.max_tokens < 1:
        raise refuse("max_tokens", "must be at least 1")
    if request.n < 1:
        raise refuse("n", "must be at least 1")
    if request.temperature is not None and not 0 <= request.temperature <= 2:
        raise refuse("temperature", "must be between 0 and 2")
    if request.top_p is not None and not 0 < request.top_p <= 1:
        raise refuse("top_p", "must be above 0 and at most 1")
    for name in ("frequency_penalty", "presence_penalty"):
        if not -2 <= (getattr(request, name) or 0) <= 2:
            raise refuse(name, "must be between -2 and 2")
    if request.top_logprobs is not None and not 0 <= request.top_logprobs <= MOST_ALTERNATIVES:
        raise refuse("top_logprobs", f"must be between 0 and {MOST_ALTERNATIVES}")
    if request.top_logprobs and not request.logprobs:
        raise refuse("top_logprobs", "needs logprobs to be true")
    if request.deadline_ms is not None and request.deadline_ms < 1:
        raise refuse("deadline_ms", "must be at least 1")
    for name in ("max_age_s", "ttl_s", "max_distance"):
        if (given := getattr(request.cache, name)) is not None and given < 0:
            raise refuse(f"cache.{name}", "must be at least 0")
    if request.cache.scope == "user" and not request.user:
        raise refuse("user", "must be given when cache.scope is user")
