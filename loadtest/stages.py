"""The two published pipelines as the times of their stages, and the prices that make one of their requests as dear."""

import msgspec

SMALL, LARGE = "small", "large"
FASTER = 0.55
"""By how much sooner the small model's first token comes at equal prompt length."""
CHEAPER = 10.0
TOKEN_MS = 10.0
"""The time of an answer's later tokens; the published figures give the time of the answer alone."""
COMPLETION_TIMES = 4.0
"""How many times the price of a prompt token a token of the answer has, about as hosted models are priced."""


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The stages of one naive request in ms, one after the other, and what was published of it.

    `first_token_ms` is at `prompt_tokens`, and linear in them. `was` and `became` are the published figures before and
    after, by name.
    """

    name: str
    network_ms: float
    construction_ms: float
    retrieval_ms: float
    queue_ms: float
    first_token_ms: float
    prompt_tokens: int
    generation_ms: float
    post_ms: float
    was: dict[str, float]
    became: dict[str, float]
    dollars: float = 0.0082

    @property
    def total_ms(self) -> float:
        """What a request takes that finds everything free."""
        before = self.network_ms + self.construction_ms + self.retrieval_ms + self.queue_ms
        return before + self.first_token_ms + self.generation_ms + self.post_ms

    @property
    def answer_tokens(self) -> int:
        """The length of every answer: the first token, and one each `TOKEN_MS` of the generation."""
        return 1 + round(self.generation_ms / TOKEN_MS)

    def first_ms(self, model: str, tokens: int) -> float:
        """From the moment a slot is free to the first token of an answer to a prompt of so many tokens."""
        return self.first_token_ms * tokens / self.prompt_tokens * ((1 - FASTER) if model == SMALL else 1.0)

    def prompt_price(self, model: str) -> float:
        """Dollars per 1,000 tokens of the prompt, so that a naive request costs `dollars`."""
        large = 1000 * self.dollars / (self.prompt_tokens + COMPLETION_TIMES * self.answer_tokens)
        return large / CHEAPER if model == SMALL else large

    def cost(self, model: str, prompt_tokens: int, completion_tokens: int) -> float:
        """The dollars of one call."""
        return self.prompt_price(model) * (prompt_tokens + COMPLETION_TIMES * completion_tokens) / 1000


PER_TOKEN_MS = 1850.0 / 3200
FIRST = Stack(
    name="1",
    network_ms=120.0,
    construction_ms=45.0,
    retrieval_ms=380.0,
    queue_ms=280.0,
    first_token_ms=1850.0,
    prompt_tokens=3200,
    generation_ms=520.0,
    post_ms=85.0,
    was={"ttft_p95_ms": 3280, "total_p95_ms": 4800, "per_s": 45, "dollars": 0.0082},
    became={"ttft_p95_ms": 800, "total_p95_ms": 2100, "per_s": 180, "dollars": 0.0034},
)
"""Its stages add up to the 3,280 ms that are published as its time to the first token: nothing was streamed."""
SECOND = Stack(
    name="2",
    network_ms=120.0,
    construction_ms=450.0,
    retrieval_ms=850.0,
    queue_ms=0.0,
    first_token_ms=8000 * PER_TOKEN_MS,
    prompt_tokens=8000,
    generation_ms=6800.0 - 8000 * PER_TOKEN_MS,
    post_ms=230.0,
    was={"ttft_p50_ms": 4200, "ttft_p99_ms": 8450},
    became={"ttft_p50_ms": 280, "ttft_p99_ms": 450, "hit_ttft_ms": 80},
)
"""Its stages add up to the published P99 of 8,450 ms. Of the model's 6,800 ms only the sum is published: the first
token is taken to be as linear in the prompt as the first stack's, the rest is the answer."""
STACKS = {"1": FIRST, "2": SECOND}
