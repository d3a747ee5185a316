"""litellm's client against a running hasten."""

import os
from importlib.metadata import version
from typing import Any

import litellm
from tried import Tried, same

MODEL, REAL = "openai/" + os.environ["HASTEN_MODEL"], "openai/" + os.environ["HASTEN_REAL_MODEL"]
TO: dict[str, Any] = {
    "api_base": os.environ["HASTEN_URL"] + "/v1",
    "api_key": os.environ["HASTEN_API_KEY"],
    "num_retries": 0,
}
ASK = [{"role": "user", "content": "one two three four"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": CITY}} for name in ("weather", "time")]


def chat(model: str = MODEL, **options: Any) -> Any:
    return litellm.completion(model=model, **{"messages": ASK, **options}, **TO)


def whole() -> str:
    answer = chat()
    same((answer.choices[0].message.content, answer.choices[0].finish_reason), ("one two three four", "stop"))
    return f"{answer.usage.total_tokens} tokens"


def streams() -> str:
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    built = litellm.stream_chunk_builder(chunks, messages=ASK)
    same(built.choices[0].message.content, "one two three four")
    return f"{len(chunks)} chunks, {built.usage.total_tokens} tokens"


def tools() -> str:
    answer = chat(tools=TOOLS).choices[0].message
    same([call.function.name for call in answer.tool_calls], ["weather", "time"])
    results = [{"role": "tool", "tool_call_id": call.id, "content": "fine"} for call in answer.tool_calls]
    after = chat(messages=[*ASK, answer.model_dump(), *results], tools=TOOLS)
    same(after.choices[0].message.content, "It is fine and fine.")
    return "two calls, results taken back"


def tools_streamed() -> str:
    built = litellm.stream_chunk_builder(list(chat(tools=TOOLS, stream=True)), messages=ASK)
    same([call.function.arguments for call in built.choices[0].message.tool_calls], ['{"city": "Oslo"}'] * 2)
    return "two calls"


def schema() -> str:
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    same(chat(response_format=form).choices[0].message.content, '{"city": "Oslo"}')
    return "json_schema"


def several() -> str:
    same([one.index for one in chat(n=2).choices], [0, 1])
    return "n=2"


def logprobs() -> str:
    told = chat(REAL, logprobs=True, top_logprobs=1, max_tokens=4).choices[0].logprobs.content
    same(len(told), 4)
    return "4 tokens"


def embeds() -> str:
    found = litellm.embedding(model="openai/auto", input=["one", "two"], encoding_format="float", **TO)
    same(len(found.data), 2)
    return f"{len(found.data[0]['embedding'])} numbers"


def responses() -> str:
    answer = litellm.responses(model=MODEL, input="one two three", **TO)
    same(answer.output[0].content[0].text, "one two three")
    kinds = {
        str(getattr(event.type, "value", event.type))
        for event in litellm.responses(model=MODEL, input="one two", stream=True, **TO)
    }
    assert "response.completed" in kinds, kinds
    return f"{len(kinds)} kinds of events"


def refused(kind: type[Exception], **options: Any) -> str:
    try:
        chat(**options)
    except kind:
        return kind.__name__
    raise AssertionError("it was not refused")


def main() -> None:
    litellm.suppress_debug_info = True
    tried = Tried(f"litellm {version('litellm')}")
    for check in (whole, streams, tools, tools_streamed, schema, several, logprobs, embeds, responses):
        tried.case(check.__name__.replace("_", " "), check)
    tried.case("an unknown model", lambda: refused(litellm.NotFoundError, model="openai/no-such"))
    tried.case("a bad temperature", lambda: refused(litellm.BadRequestError, temperature=3))
    tried.end()


if __name__ == "__main__":
    main()
