"""openai-python against a running hasten: HASTEN_URL, HASTEN_API_KEY, and the names of its models."""

import json
import os
from typing import Any

import openai
from pydantic import BaseModel
from tried import Tried, same

MODEL, REAL = os.environ["HASTEN_MODEL"], os.environ["HASTEN_REAL_MODEL"]
client: Any = openai.OpenAI(
    base_url=os.environ["HASTEN_URL"] + "/v1", api_key=os.environ["HASTEN_API_KEY"], max_retries=0
)
chat = client.chat.completions
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": CITY, "strict": True}} for name in ("weather", "time")
]
ASK = [{"role": "user", "content": "one two three four"}]


class City(BaseModel):
    """What a structured answer is."""

    city: str


def streams() -> str:
    text, roles, reasons = "", [], []
    for chunk in chat.create(model=MODEL, messages=ASK, stream=True):
        (choice,) = chunk.choices
        text += choice.delta.content or ""
        roles += [choice.delta.role] if choice.delta.role else []
        reasons += [choice.finish_reason] if choice.finish_reason else []
    same((text, roles, reasons), ("one two three four", ["assistant"], ["stop"]))
    return text


def usage_in_a_stream() -> str:
    chunks = list(chat.create(model=MODEL, messages=ASK, stream=True, stream_options={"include_usage": True}))
    same([len(chunk.choices) for chunk in chunks], [1] * (len(chunks) - 1) + [0])
    assert chunks[-1].usage.total_tokens > 0
    return f"{chunks[-1].usage.total_tokens} tokens"


def tools_whole() -> str:
    answer = chat.create(model=MODEL, messages=ASK, tools=TOOLS).choices[0]
    same(answer.finish_reason, "tool_calls")
    same([call.function.name for call in answer.message.tool_calls], ["weather", "time"])
    turns = [*ASK, answer.message]
    turns += [{"role": "tool", "tool_call_id": call.id, "content": "fine"} for call in answer.message.tool_calls]
    after = chat.create(model=MODEL, messages=turns, tools=TOOLS).choices[0]
    same((after.message.content, after.finish_reason), ("It is fine and fine.", "stop"))
    return "two calls, results taken back"


def tools_streamed() -> str:
    with chat.stream(model=MODEL, messages=ASK, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        answer = stream.get_final_completion().choices[0]
    same([json.loads(call.function.arguments) for call in answer.message.tool_calls], [{"city": "Oslo"}] * 2)
    same(kinds.count("tool_calls.function.arguments.done"), 2)
    return f"{kinds.count('tool_calls.function.arguments.delta')} fragments"


def one_named_tool() -> str:
    choice = {"type": "function", "function": {"name": "time"}}
    answer = chat.create(model=MODEL, messages=ASK, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    same([call.function.name for call in answer.choices[0].message.tool_calls], ["time"])
    return "time"


def json_object() -> str:
    answer = chat.create(model=MODEL, messages=ASK, response_format={"type": "json_object"})
    return str(json.loads(answer.choices[0].message.content))


def parsed_schema() -> str:
    answer = chat.parse(model=MODEL, messages=ASK, response_format=City)
    same(answer.choices[0].message.parsed, City(city="Oslo"))
    return "City(city='Oslo')"


def schema_of_a_real_model() -> str:
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Paris"]}}, "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    answer: str = chat.create(model=REAL, messages=ASK, response_format=form, max_tokens=60).choices[0].message.content
    assert json.loads(answer)["city"] in ("Oslo", "Paris"), answer
    return answer


def several_answers() -> str:
    whole = chat.create(model=MODEL, messages=ASK, n=3)
    same([choice.index for choice in whole.choices], [0, 1, 2])
    reasons: dict[int, list[str]] = {0: [], 1: []}
    for chunk in chat.create(model=REAL, messages=ASK, n=2, stream=True, max_tokens=6):
        for choice in chunk.choices:
            reasons[choice.index] += [choice.finish_reason] if choice.finish_reason else []
    same([len(one) for one in reasons.values()], [1, 1])
    return "3 whole, 2 interleaved"


def stops() -> str:
    answer = chat.create(model=MODEL, messages=ASK, stop=[" three"]).choices[0]
    same((answer.message.content, answer.finish_reason), ("one two", "stop"))
    return "one two"


def limits() -> str:
    answer = chat.create(model=MODEL, messages=ASK, max_tokens=40, max_completion_tokens=2).choices[0]
    same((answer.message.content, answer.finish_reason), ("one two", "length"))
    return "max_completion_tokens wins"


def logprobs() -> str:
    told = chat.create(model=REAL, messages=ASK, logprobs=True, top_logprobs=2, max_tokens=5).choices[0]
    same([len(one.top_logprobs) for one in told.logprobs.content], [2] * 5)
    same("".join(one.token for one in told.logprobs.content), told.message.content)
    seen: list[Any] = []
    for chunk in chat.create(model=REAL, messages=ASK, logprobs=True, stream=True, max_tokens=5):
        seen += chunk.choices[0].logprobs.content if chunk.choices[0].logprobs else []
    same((len(seen), seen[0].top_logprobs), (5, []))
    return "5 tokens, whole and streamed"


def developer() -> str:
    turns = [ASK[0], {"role": "developer", "content": "Use metric units."}, {"role": "user", "content": "how tall"}]
    for model in (MODEL, REAL):
        assert chat.create(model=model, messages=turns, max_tokens=4).choices[0].message.content
    return "in the middle"


def parts() -> str:
    content = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    answer = chat.create(model=MODEL, messages=[{"role": "user", "content": content}])
    same(answer.choices[0].message.content.split(), ["one", "two"])
    return "two text parts"


def refused(kind: type[Exception], param: str | None, **fields: Any) -> str:
    for stream in (False, True):
        try:
            chat.create(**{"model": MODEL, "messages": ASK, "stream": stream, **fields})
        except kind as error:
            same(getattr(error, "param", None), param)
        else:
            raise AssertionError("it was not refused")
    return f"{kind.__name__}, {param}"


def images() -> str:
    content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    return refused(openai.BadRequestError, "messages", messages=[{"role": "user", "content": content}])


def wrong_key() -> str:
    try:
        openai.OpenAI(base_url=client.base_url, api_key="hk-no", max_retries=0).models.list()
    except openai.AuthenticationError as error:
        return str(error.code)
    raise AssertionError("a wrong key was taken")


def embeds() -> str:
    one, other = client.embeddings.create(model="auto", input=["one", "two"]).data
    same((len(one.embedding), one.index, other.index), (len(other.embedding), 0, 1))
    return f"{len(one.embedding)} numbers"


def models() -> str:
    names = [model.id for model in client.models.list()]
    assert {"auto", MODEL, REAL} <= set(names), names
    same(client.models.retrieve(MODEL).id, MODEL)
    return ", ".join(names)


def responses() -> str:
    flat: Any = [{"type": "function", **tool["function"]} for tool in TOOLS]
    first = client.responses.create(model=MODEL, input="Weather?", tools=flat)
    calls = [item for item in first.output if item.type == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "fine"} for call in calls]
    question: Any = {"role": "user", "content": "Weather?"}
    with client.responses.stream(model=MODEL, input=[question, *first.output, *outputs], tools=flat) as stream:
        kinds = {event.type for event in stream}
        same(stream.get_final_response().output_text, "It is fine and fine.")
    assert {"response.created", "response.output_text.delta", "response.completed"} <= kinds, kinds
    same(client.responses.parse(model=MODEL, input="x", text_format=City).output_parsed, City(city="Oslo"))
    return "calls, results, stream, schema"


def responses_refusal() -> str:
    try:
        client.responses.create(model=MODEL, input="x", previous_response_id="resp_1")
    except openai.BadRequestError as error:
        return str(error.param)
    raise AssertionError("it was not refused")


def main() -> None:
    tried = Tried(f"openai-python {openai.__version__}")
    for check in (
        streams, usage_in_a_stream, tools_whole, tools_streamed, one_named_tool, json_object, parsed_schema,
        schema_of_a_real_model, several_answers, stops, limits, logprobs, developer, parts, images, wrong_key, embeds,
        models, responses, responses_refusal,
    ):  # fmt: skip
        tried.case(check.__name__.replace("_", " "), check)
    tried.case("an unknown model", lambda: refused(openai.NotFoundError, "model", model="no-such"))
    tried.case("a bad temperature", lambda: refused(openai.BadRequestError, "temperature", temperature=3))
    tried.case("deprecated functions", lambda: refused(openai.BadRequestError, "functions", functions=[{"name": "f"}]))
    tried.case("no messages", lambda: refused(openai.BadRequestError, "messages", messages=[]))
    tried.end()


if __name__ == "__main__":
    main()
