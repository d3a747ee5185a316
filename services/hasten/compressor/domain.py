"""From a request to the shortest prompt that keeps what the answer needs, in tokens of one model."""

from collections.abc import Sequence

import msgspec

from hasten.compressor.budget import Shares, target, with_shares
from hasten.compressor.explanation import explain
from hasten.compressor.parts import Parts, Plan
from hasten.compressor.prompt import Wording, lay_out
from hasten.compressor.tokens import TokenCounter
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress, Compressed
from hasten.messages.failure import Failed

_TRIES = 8
_NEARLY = 1.03
"""The sum of parts counted one by one is a little off: up to this much over the limit, the prompt is counted whole."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator decides: the shares of the parts, and the words put around the passages."""

    shares: Shares
    wording: Wording


def compress(request: Compress, counter: TokenCounter, policy: Policy, similar: Sequence[float] = ()) -> Compressed:
    """The prompt for a request, with what became of each part. `similar` are the cosines of the examples with the
    conversation's first question, where they are known.

    Everything is kept while it fits the budget. Otherwise examples, old rounds and sentences of passages go; the system
    text, the tools, the last user turn and what is marked `keep` never do. Raises Failed(context_overflow) when these
    alone, with `max_tokens`, are more than the context window.
    """
    return _Compression(request, counter, policy, similar).result()


class _Compression:
    """One request on its way: its parts, and how long the prompt may become."""

    def __init__(self, request: Compress, counter: TokenCounter, policy: Policy, similar: Sequence[float]) -> None:
        for limit in ("token_budget", "max_tokens"):
            if getattr(request, limit) < 0:
                raise Failed("bad_request", f"{limit} is a number of tokens, 0 or more", param=limit)
        self.request, self.counter, self.policy = request, counter, policy
        self.shares = with_shares(policy.shares, request.shares)
        self.window = request.context_window - request.max_tokens
        self.parts = Parts(request, counter, policy.wording, similar)

    def result(self) -> Compressed:
        bare, whole = self.parts.bare(), self.parts.whole()
        fixed = self._fixed(bare)
        limit = target(fixed, self.request.token_budget, self.window, self.shares)
        before = fixed + self.parts.cost(whole) - self.parts.cost(bare)
        if before <= limit * _NEARLY:
            before = fixed if whole == bare else self._count(whole)
        if before <= limit:
            return self._compressed(whole, before, before)
        plan, after = self._cut(bare, fixed, limit)
        return self._compressed(plan, before, after)

    def _fixed(self, bare: Plan) -> int:
        """The tokens of what is never cut. When the window forces it, the oldest tool steps of this turn go too."""
        while (fixed := self._count(bare)) > self.window:
            if not self.parts.without_oldest_steps(fixed - self.window):
                raise Failed(
                    "context_overflow",
                    f"{fixed} tokens of the prompt cannot be left out; the context window of "
                    f"{self.request.context_window} less max_tokens of {self.request.max_tokens} leaves {self.window}",
                    param="messages",
                )
        return fixed

    def _cut(self, bare: Plan, fixed: int, limit: int) -> tuple[Plan, int]:
        """The best plan that fits, and its tokens: the room is narrowed until the prompt as the engine sees it fits."""
        room = limit - fixed
        for _ in range(_TRIES):
            plan = self.parts.divide(room, self.shares)
            after = self._count(plan)
            if after <= limit:
                return plan, after
            room -= after - limit
        return bare, fixed

    def _count(self, plan: Plan) -> int:
        messages, _ = self._messages(plan)
        return self.counter.prompt(messages, self.request.tools)

    def _messages(self, plan: Plan) -> tuple[list[Turn], int]:
        return lay_out(self.parts.draft(plan), self.policy.wording)

    def _compressed(self, plan: Plan, before: int, after: int) -> Compressed:
        messages, stable = self._messages(plan)
        first = messages[:stable]
        return Compressed(
            messages=messages,
            tokens_before=before,
            tokens_after=after,
            stable=stable,
            stable_tokens=self.counter.prompt(first, self.request.tools, opens_answer=False) if first else 0,
            used=[one.passage.id for one, units in zip(self.parts.documents, plan.units, strict=True) if units],
            parts=explain(self.parts, plan, self.counter),
            sources=self.parts.sources(plan),
        )
