"""Says whether a JSON value is what a schema asks for, by the keywords that answers are asked for with.

Pure. A keyword that it does not know asks for nothing: a value is only called wrong when it is.
"""

from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "number": (int, float),
    "null": type(None),
}


def fits(value: Any, schema: Any) -> bool:
    """Whether `value` may be what `schema` describes: type, enum, const, properties, required, additionalProperties
    false, items, anyOf, oneOf, allOf and references within it. What is no schema asks for nothing."""
    try:
        return _fits(value, schema, schema)
    except (TypeError, AttributeError, RecursionError):
        return True


def _fits(value: Any, schema: Any, root: Any) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    if "$ref" in schema and not _fits(value, _referred(schema["$ref"], root), root):
        return False
    kinds = schema.get("type", [])
    if kinds and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if ("enum" in schema and value not in schema["enum"]) or ("const" in schema and value != schema["const"]):
        return False
    choices = [schema[word] for word in ("anyOf", "oneOf") if word in schema]
    if not all(any(_fits(value, one, root) for one in choice) for choice in choices):
        return False
    return all(_fits(value, one, root) for one in schema.get("allOf", ())) and _parts_fit(value, schema, root)


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value % 1 == 0))
    if kind == "number" and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES.get(kind, object))


def _parts_fit(value: Any, schema: dict[str, Any], root: Any) -> bool:
    if isinstance(value, list):
        return all(_fits(one, schema.get("items", True), root) for one in value)
    if not isinstance(value, dict):
        return True
    known = schema.get("properties", {})
    if not set(schema.get("required", ())) <= set(value):
        return False
    if (
        schema.get("additionalProperties") is False
        and not set(value) <= set(known)
        and "patternProperties" not in schema
    ):
        return False
    return all(_fits(part, known.get(name, True), root) for name, part in value.items())


def _referred(name: str, root: Any) -> Any:
    """What a reference like `#/$defs/row` names; True, which asks for nothing, when there is no such place."""
    place = root
    for step in name.removeprefix("#").strip("/").split("/") if name.startswith("#") else ["?"]:
        step = step.replace("~1", "/").replace("~0", "~")
        if step:
            place = place.get(step, True) if isinstance(place, dict) else True
    return place
