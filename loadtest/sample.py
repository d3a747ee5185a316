"""What became of one request of a load test; every time in it is counted from the moment the request was due."""

import msgspec

DONE = "done"
CACHED = ("exact", "semantic", "shared")
"""The sources of an answer that no model was asked for."""


class Sample(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One request, whatever became of it.

    `at_s` is when it was due, in seconds from the start of the run, and `late_ms` how much later it was begun: the
    generator's own fault, which is part of every other time. `ttft_ms` is from the moment it was due to the first chunk
    (None without one), `total_ms` to the end, `tpot_ms` the time per later token, `gap_ms` the longest pause between
    two chunks. `outcome` is `done` or a failure's code, `detail` what hasten said
    besides. `cache` says where the answer came from (exact, semantic,
    shared, miss). `stages` are the orchestrator's times in ms, `queue` of them the wait for a slot of the engine.
    `tokens_before` and `tokens_after` are the prompt's before and after compression, None where none was made or told;
    `prompt_tokens`, `cached_tokens` and `completion_tokens` the usage. `cost` is in dollars, by the model table;
    `saved` is what a hit would have cost as a miss.
    """

    index: int = 0
    at_s: float = 0.0
    kind: str = ""
    request_id: str = ""
    outcome: str = DONE
    detail: str = ""
    cache: str = ""
    model: str = ""
    late_ms: float = 0.0
    ttft_ms: float | None = None
    total_ms: float = 0.0
    tpot_ms: float | None = None
    gap_ms: float = 0.0
    chunks: int = 0
    stages: dict[str, float] = {}
    tokens_before: int | None = None
    tokens_after: int | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    saved: float = 0.0
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was answered to the end."""
        return self.outcome == DONE

    @property
    def hit(self) -> bool:
        """Whether it was answered without asking a model for it."""
        return self.ok and self.cache in CACHED
