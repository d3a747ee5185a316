"""Settings of the orchestrator."""

from typing import Literal

import msgspec

from hasten.orchestrator.guard.rule import GuardRule
from hasten.orchestrator.verification.checks import CheckSettings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`limit` requests at once, `waiting` more in line. `deadline_ms` and `max_deadline_ms` are the default and the
    longest deadline. `exact_wait_ms` is how long the exact lookup may take before the question is embedded anyway.
    `latency_budget_ms` is what the router aims at for the first token (0: no budget). `passages` are retrieved per
    question. `attempts` is how many workers are tried. `silence_s` is how long a worker may be silent (it pings four
    times a second; that its process has ended is known after 0.4 s). `hedge_share` is how many second attempts at slow
    first tokens there may be per call (0: none), of which `hedge_burst` can be saved up. `replay_words` is the size of
    a chunk of a cached answer. `recent_entries` exact hits are remembered for `recent_s` after the cache confirmed
    them. `ttl_s` is asked of the cache for what is stored (0: the cache's own). `refresh_s` is how long before its end
    an answer that is asked for is made anew in the background, at most the last tenth of its life (0: never).
    `again_s` is how long a stage may be silent before it is asked again, by then of another replica if the first one
    hangs (0: never). `grace_s` is how long an answer goes on, and is kept, for a reader that was lost and had said that
    it would ask again.

    `cascade` says whether a small model that was preferred for want of a known difficulty can be overruled by its own
    signs: off, hold (its answer is held back to its end, or for `cascade_hold_tokens`), or first_tokens (for
    `cascade_first_tokens`). Among the signs are a mean and a least log-probability of its tokens below
    `cascade_mean_logprob` and `cascade_min_logprob` (0: no bound); the default is what escalates a fifth of the
    embedded model's answers to questions with a passage (loadtest.cascade), and has to be set for any other.

    `guard` are the rules on what readers are shown (`GuardRule`). `verify_ms` is how long the end of an answer waits
    at most, once its text is there, until its citations have been looked for in its passages and the `checks` of the
    operator (`CheckSettings`) have answered; 0: neither is done. `verify_stored` says which answers are not stored:
    those with a sentence that the passages it cites do not bear out (cited), also those with a sentence without a
    citation that none bears out (all), or none for that (off)."""

    limit: int = 512
    waiting: int = 512
    deadline_ms: int = 60_000
    max_deadline_ms: int = 600_000
    exact_wait_ms: float = 2.0
    latency_budget_ms: float = 0.0
    passages: int = 8
    attempts: int = 3
    silence_s: float = 1.75
    hedge_share: float = 0.03
    hedge_burst: float = 10.0
    cascade: Literal["off", "hold", "first_tokens"] = "off"
    cascade_hold_tokens: int = 1024
    cascade_first_tokens: int = 8
    cascade_mean_logprob: float = -0.65
    cascade_min_logprob: float = 0.0
    replay_words: int = 24
    recent_entries: int = 1024
    recent_s: float = 5.0
    ttl_s: float = 0.0
    refresh_s: float = 60.0
    again_s: float = 0.5
    grace_s: float = 3.0
    guard: list[GuardRule] = []
    verify_ms: float = 50.0
    verify_stored: Literal["cited", "all", "off"] = "cited"
    checks: list[CheckSettings] = []
