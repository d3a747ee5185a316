"""What one request really cost, from the events of its answer; pure.

An answer from the cache, or one that another request has paid for, costs nothing. One that its reader left before the
end costs what had been sent, by the bytes: leaving early is not a way to get it for less.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from hasten.gateway.allowance import Amount
from hasten.messages.chat import Chunk, Done, Note

BYTES_PER_TOKEN = 4
MOST = 2**53
"""Whatever is asked for: beyond any limit there can be."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars per 1,000 tokens of a model."""

    prompt: float = 0.0
    completion: float = 0.0

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Dollars for so many tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1000


FREE = Price()


def estimated_tokens(body: Mapping[str, Any]) -> int:
    """What to expect of a chat body: its texts by the bytes, and the longest answer it asks for, where it says so.

    A body may have fields of another API, which nobody has looked at: what is no number of tokens there counts nothing.
    """
    said = sum(len(msgspec.json.encode(body[name])) for name in ("messages", "input", "tools") if body.get(name))
    longest = max(map(_count, map(body.get, ("max_completion_tokens", "max_tokens", "max_output_tokens"))))
    return said // BYTES_PER_TOKEN + longest * max(1, _count(body.get("n")))


def _count(value: Any) -> int:
    return min(value, MOST) if isinstance(value, int) and value > 0 else 0


class Meter:
    """Takes in the events of an answer (`see`), or of several, and says what they used up.

    `prompt_tokens` is what the prompt is estimated at as long as nobody has counted it. `paid` is what the beginning of
    the answer has been charged for already, where another gateway sent that.
    """

    def __init__(self, prompt_tokens: int, *, paid: Amount | None = None) -> None:
        self._prompt_tokens, self._paid = prompt_tokens, paid or Amount()
        self._bytes = 0
        self._model = ""
        self._free = False
        self._counted: list[Done] = []

    def see(self, event: Any) -> None:
        """Takes in one event."""
        if isinstance(event, Chunk):
            self._bytes += len(event.text.encode()) + len(event.reasoning.encode())
        elif isinstance(event, Note) and event.kind == "cache":
            self._free = self._free or bool(event.data.get("hit"))
        elif isinstance(event, Note) and event.kind == "route":
            self._model = str(event.data.get("model") or "")
        elif isinstance(event, Done):
            self._counted.append(event)
            self._bytes, self._model = 0, ""

    def amount(self, prices: Mapping[str, Price]) -> Amount:
        """Tokens and dollars so far, by the prices of the models; none of an unknown one's."""
        used = Amount()
        for done in self._counted:
            if done.cache == "miss":
                used += _amount(done.model, done.usage.prompt_tokens, done.usage.completion_tokens, prices)
                used += _draft(done, prices)
        if self._model and not self._free:
            used += _amount(self._model, self._prompt_tokens, self._bytes / BYTES_PER_TOKEN, prices)
        left = used - self._paid
        return Amount(tokens=max(0.0, left.tokens), usd=max(0.0, left.usd))


def _amount(model: str, prompt: float, completion: float, prices: Mapping[str, Price]) -> Amount:
    return Amount(tokens=prompt + completion, usd=prices.get(model, FREE).of(prompt, completion))


def _draft(done: Done, prices: Mapping[str, Price]) -> Amount:
    """What a draft of a smaller model used that was given up for this answer."""
    given_up = (done.usage.completion_tokens_details or {}).get("cascade")
    if not isinstance(given_up, dict):
        return Amount()
    prompt = given_up.get("prompt_tokens", done.usage.prompt_tokens)
    return _amount(str(given_up.get("model")), prompt, given_up.get("completion_tokens", 0), prices)
