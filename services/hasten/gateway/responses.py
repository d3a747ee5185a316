"""POST /v1/responses: text and function calls by OpenAI's Responses API, answered as the chat that asks the same."""

from collections.abc import Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from hasten.gateway.chat import Chat, Prepared
from hasten.gateway.domain import ask_of
from hasten.gateway.head import Head
from hasten.gateway.responses_request import chat_body, translated
from hasten.gateway.responses_wire import ResponsesWire
from hasten.messages.failure import Failed


class Responses:
    """The endpoint, as an ASGI application."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; raises Failed while nothing has been sent."""
        try:
            await self._chat.answer(scope, receive, send, prepared)
        except Failed as failed:
            raise Failed.of(translated(failed.failure)) from None


def prepared(plain: dict[str, Any], headers: Mapping[str, str], tenant: str, request_id: str, now_s: int) -> Prepared:
    """What is asked on the bus for one body; raises Failed."""
    ask = ask_of(chat_body(plain), headers, tenant)
    head = Head(request_id, ask.model)
    return Prepared(ask, head, ResponsesWire(head, now_s, plain))
