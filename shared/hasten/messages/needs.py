"""What a model must be able to do for a request, and which field of it says so; pure."""

from typing import Any

from hasten.messages.chat import Turn
from hasten.messages.form import TEXT_PARTS

FIELD_OF = {"tools": "tools", "json": "response_format", "logprobs": "logprobs", "vision": "messages"}
"""The field of a request that each need comes from."""


def needs_of(
    messages: list[Turn],
    *,
    tools: list[dict[str, Any]] | None,
    response_format: dict[str, Any] | None,
    logprobs: bool | None,
    top_logprobs: int | None,
) -> list[str]:
    """The capabilities a model must have for a request with these fields: any of tools, json, logprobs, vision.

    Every response format but plain text needs json. Every typed content part but text needs vision, so that a part
    we do not know is refused rather than left out in silence.
    """
    types = (part.get("type") for turn in messages if isinstance(turn.content, list) for part in turn.content)
    asked = {
        "tools": bool(tools),
        "json": (response_format or {}).get("type", "text") != "text",
        "logprobs": bool(logprobs or top_logprobs),
        "vision": any(kind is not None and kind not in TEXT_PARTS for kind in types),
    }
    return [need for need, wanted in asked.items() if wanted]
