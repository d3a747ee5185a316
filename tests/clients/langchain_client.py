"""langchain-openai against a running hasten, by chat completions and by responses."""

import os
from typing import Any

import langchain_openai
import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from tried import Tried, same

MODEL, REAL, URL = os.environ["HASTEN_MODEL"], os.environ["HASTEN_REAL_MODEL"], os.environ["HASTEN_URL"] + "/v1"
KEY: Any = os.environ["HASTEN_API_KEY"]
ASK = [SystemMessage("Say it again."), HumanMessage("one two three four")]


@tool  # type: ignore[untyped-decorator,unused-ignore]
def weather(city: str) -> str:
    """How the weather is in a city."""
    return f"fine in {city}"


@tool  # type: ignore[untyped-decorator,unused-ignore]
def time(city: str) -> str:
    """What time it is in a city."""
    return "noon"


class City(BaseModel):
    """Where it is."""

    city: str


def chat(model: str = MODEL, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model=model, base_url=URL, api_key=KEY, max_retries=0, **options)


def invokes() -> str:
    answer = chat().invoke(ASK)
    same((answer.content, answer.response_metadata["finish_reason"]), ("one two three four", "stop"))
    return f"{answer.usage_metadata['total_tokens']} tokens" if answer.usage_metadata else "no usage"


def streams() -> str:
    chunks = list(chat(stream_usage=True).stream(ASK))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    same(whole.content, "one two three four")
    assert whole.usage_metadata is not None
    return f"{len(chunks)} chunks with usage"


def tools(**options: Any) -> str:
    bound = chat(**options).bind_tools([weather, time])
    turns: list[Any] = [*ASK]
    answer = bound.invoke(turns)
    assert isinstance(answer, AIMessage)
    same([call["name"] for call in answer.tool_calls], ["weather", "time"])
    results = {"weather": weather, "time": time}
    turns += [answer]
    turns += [
        ToolMessage(results[call["name"]].invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls
    ]
    same(bound.invoke(turns).text, "It is fine in Oslo and noon.")
    return "two calls, results taken back"


def tools_streamed() -> str:
    whole: Any = None
    for chunk in chat().bind_tools([weather, time]).stream(ASK):
        whole = chunk if whole is None else whole + chunk
    same([call["args"] for call in whole.tool_calls], [{"city": "Oslo"}] * 2)
    return "two calls"


def structured(method: Any) -> str:
    same(chat().with_structured_output(City, method=method).invoke(ASK), City(city="Oslo"))
    return "City(city='Oslo')"


def json_mode() -> str:
    return str(chat().with_structured_output(None, method="json_mode").invoke(ASK))


def generates_several() -> str:
    generations = chat(n=2).generate([ASK]).generations[0]
    same([one.text for one in generations], ["one two three four"] * 2)
    return "n=2"


def stops() -> str:
    same(chat().bind(stop=[" three"]).invoke(ASK).content, "one two")
    return "one two"


def logprobs() -> str:
    told = chat(REAL, logprobs=True, top_logprobs=1, max_tokens=4).invoke(ASK).response_metadata["logprobs"]["content"]
    same(len(told), 4)
    return "4 tokens"


def embeds() -> str:
    vectors = OpenAIEmbeddings(
        model="auto", base_url=URL, api_key=KEY, check_embedding_ctx_length=False
    ).embed_documents(["one", "two"])
    same(len(vectors), 2)
    return f"{len(vectors[0])} numbers"


def fails() -> str:
    try:
        chat("no-such").invoke(ASK)
    except openai.NotFoundError as error:
        return str(error.code)
    raise AssertionError("it was not refused")


def responses() -> str:
    answer = chat(use_responses_api=True).invoke(ASK)
    same(answer.text, "one two three four")
    text = "".join(chunk.text for chunk in chat(use_responses_api=True).stream(ASK))
    same(text, "one two three four")
    return "whole and streamed"


def responses_structured() -> str:
    same(chat(use_responses_api=True).with_structured_output(City).invoke(ASK), City(city="Oslo"))
    return "City(city='Oslo')"


def main() -> None:
    tried = Tried(f"langchain-openai {getattr(langchain_openai, '__version__', '')}".strip())
    for check in (
        invokes,
        streams,
        tools,
        tools_streamed,
        json_mode,
        generates_several,
        stops,
        logprobs,
        embeds,
        fails,
    ):
        tried.case(check.__name__.replace("_", " "), check)
    tried.case("structured, by schema", lambda: structured("json_schema"))
    tried.case("structured, by a call", lambda: structured("function_calling"))
    tried.case("responses", responses)
    tried.case("responses, tools", lambda: tools(use_responses_api=True))
    tried.case("responses, structured", responses_structured)
    tried.end()


if __name__ == "__main__":
    main()
