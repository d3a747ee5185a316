"""Tool calls in what vLLM writes: forced ones are JSON of a known form, free ones are found by a parser of its own."""

from typing import Any

from hasten.messages.generate import Generate
from hasten.worker.engines import forced
from hasten.worker.engines.forced import Reader
from hasten.worker.engines.vllm_output import TextReader


def reader(request: Generate, tokenizer: Any, parser: str) -> Reader:
    """The reader for the tools and the tool choice of a request; `parser` is the name of one of vLLM's."""
    if not request.tools or request.tool_choice == "none":
        return TextReader()
    if forced.insists(request):
        return forced.reader(request)
    return FreeReader(request, tokenizer, parser)


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
