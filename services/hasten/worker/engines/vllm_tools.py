"""Tool calls in what vLLM writes: forced ones are JSON of a known form, free ones are found by a parser of its own."""

import secrets
from typing import Any

import msgspec

from hasten.messages.generate import Generate
from hasten.worker.engines.vllm_output import Reader, TextReader
from hasten.worker.engines.vllm_request import named


def reader(request: Generate, tokenizer: Any, parser: str) -> Reader:
    """The reader for the tools and the tool choice of a request; `parser` is the name of one of vLLM's."""
    if not request.tools or request.tool_choice == "none":
        return TextReader()
    if (name := named(request)) is not None:
        return NamedReader(name)
    if request.tool_choice == "required":
        return RequiredReader()
    return FreeReader(request, tokenizer, parser)


def _begun(index: int, name: str, arguments: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{secrets.token_hex(8)}", "type": "function", "function": function}


class NamedReader:
    """All of it is the arguments of one call."""

    calls = True

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, text: str, tokens: list[int]) -> list[dict[str, Any]]:
        """The call at the first piece, then its arguments as they come."""
        name, self._name = self._name, ""
        if name:
            return [{"tool_calls": [_begun(0, name, text)]}]
        return [{"tool_calls": [{"index": 0, "function": {"arguments": text}}]}] if text else []

    def finish(self) -> list[dict[str, Any]]:
        """Nothing is held back."""
        return []


class RequiredReader:
    """All of it is a list of calls, which are shown when it is whole."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.calls = False

    def read(self, text: str, tokens: list[int]) -> list[dict[str, Any]]:
        """Nothing yet."""
        self._pieces.append(text)
        return []

    def finish(self) -> list[dict[str, Any]]:
        """The calls; none when the list was cut off."""
        try:
            calls = msgspec.json.decode("".join(self._pieces), type=list[_Call])
        except msgspec.DecodeError:
            return []
        self.calls = bool(calls)
        made = [_begun(at, call.name, msgspec.json.encode(call.parameters).decode()) for at, call in enumerate(calls)]
        return [{"tool_calls": made}] if made else []


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parameters: dict[str, Any] = {}


class FreeReader:
    """Text in which there may be calls, in the form that the model was trained to write."""

    def __init__(self, request: Generate, tokenizer: Any, parser: str) -> None:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.tool_parsers import ToolParserManager

        self._request = ChatCompletionRequest(
            messages=[{"role": "user", "content": ""}], tools=request.tools, tool_choice=request.tool_choice or "auto"
        )
        self._parser = ToolParserManager.get_tool_parser(parser)(tokenizer, self._request.tools)
        self._text, self._tokens = "", list[int]()
        self.calls = False

    def read(self, text: str, tokens: list[int]) -> list[dict[str, Any]]:
        """The text outside of calls, and the calls as far as they are known."""
        before, known = self._text, self._tokens
        self._text, self._tokens = before + text, known + tokens
        delta = self._parser.extract_tool_calls_streaming(
            before, self._text, text, known, self._tokens, tokens, self._request
        )
        plain: dict[str, Any] = delta.model_dump(exclude_none=True) if delta is not None else {}
        self.calls = self.calls or bool(plain.get("tool_calls"))
        return [plain] if plain else []

    def finish(self) -> list[dict[str, Any]]:
        """The arguments that the parser has understood and not shown."""
        rest = self._parser.get_remaining_unstreamed_args()
        last = max(0, len(self._parser.prev_tool_call_arr) - 1)
        return [{"tool_calls": [{"index": last, "function": {"arguments": rest}}]}] if rest and self.calls else []
