"""A server of OpenAI's chat API whose model does at once what it is asked in form: it calls the tools that it is given,
fills in the schema that it has to, and otherwise says the last words of the conversation again.

Run as a program it listens on `scripted_model.py PORT` until it is stopped.
"""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

NAME = "scripted"


def example(schema: dict[str, Any]) -> Any:
    """A value of the schema: the first of those that are listed, or the simplest of its type."""
    if "$ref" in schema or "anyOf" in schema:
        return example((schema.get("anyOf") or [{}])[0])
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: example(one) for name, one in schema.get("properties", {}).items()}
        case "array":
            return [example(schema.get("items", {}))]
        case "integer" | "number":
            return 4
        case "boolean":
            return True
    return "Oslo"


def text_of(content: Any) -> str:
    """The words of a message."""
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return content or ""


def calls_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls that are due: of the tool that is named, or of every one; the results of those before end it."""
    choice, tools = body.get("tool_choice", "auto"), body.get("tools") or []
    if choice == "none" or body["messages"][-1]["role"] == "tool":
        return []
    if isinstance(choice, dict):
        tools = [tool for tool in tools if tool["function"]["name"] == choice["function"]["name"]]
    if body.get("parallel_tool_calls") is False:
        tools = tools[:1]
    return [
        {
            "id": f"call_{at}",
            "name": tool["function"]["name"],
            "arguments": json.dumps(example(tool["function"].get("parameters") or {"type": "object"})),
        }
        for at, tool in enumerate(tools)
    ]


def words_of(body: dict[str, Any]) -> tuple[list[str], str]:
    """The tokens of the text and why it ends."""
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        text = json.dumps(example(form["json_schema"]["schema"]))
    elif form.get("type") == "json_object":
        text = json.dumps({"answer": "Oslo"})
    elif body["messages"][-1]["role"] == "tool":
        text = (
            "It is " + " and ".join(text_of(one["content"]) for one in body["messages"] if one["role"] == "tool") + "."
        )
    else:
        text = text_of(body["messages"][-1]["content"])
    ends = [at for stop in body.get("stop") or [] if (at := text.find(stop)) >= 0]
    text = text[: min(ends)] if ends else text
    words = [word if at == 0 else f" {word}" for at, word in enumerate(text.split(" "))]
    most = body.get("max_tokens") or body.get("max_completion_tokens") or len(words)
    return words[:most], "length" if most < len(words) else "stop"


def deltas(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The choices of the stream, without their index."""
    yield {"delta": {"role": "assistant", "content": ""}}
    if calls := calls_of(body):
        for at, call in enumerate(calls):
            function = {"name": call["name"], "arguments": ""}
            yield {"delta": {"tool_calls": [{"index": at, "id": call["id"], "type": "function", "function": function}]}}
            half = len(call["arguments"]) // 2
            for piece in (call["arguments"][:half], call["arguments"][half:]):
                yield {"delta": {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}}
        yield {"delta": {}, "finish_reason": "tool_calls"}
        return
    words, reason = words_of(body)
    for word in words:
        entry = {"token": word, "logprob": -0.25, "bytes": list(word.encode())}
        other = {"token": " no", "logprob": -2.0, "bytes": [32, 110, 111]}
        alternatives = [entry, other][: body.get("top_logprobs") or 0]
        told = {"logprobs": {"content": [{**entry, "top_logprobs": alternatives}]}} if body.get("logprobs") else {}
        yield {"delta": {"content": word}, **told}
    yield {"delta": {}, "finish_reason": reason}


async def chat(request: Request) -> Response:
    """POST chat/completions, always streamed."""
    body = await request.json()
    if body.get("n", 1) != 1:
        return JSONResponse({"error": {"message": "n must be 1", "param": "n"}}, 400)

    async def events() -> AsyncIterator[str]:
        spoken = 0
        for choice in deltas(body):
            spoken += 1
            yield f"data: {json.dumps({'choices': [{'index': 0, 'finish_reason': None, **choice}]})}\n\n"
        prompt = sum(len(text_of(one.get("content")).split()) for one in body["messages"])
        usage = {"prompt_tokens": prompt, "completion_tokens": spoken, "total_tokens": prompt + spoken}
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def models(_: Request) -> Response:
    """GET models."""
    return JSONResponse({"object": "list", "data": [{"id": NAME, "object": "model"}]})


app = Starlette(
    routes=[Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/models", models, methods=["GET"])]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", lifespan="off")
