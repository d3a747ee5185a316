"""What the operator can set of the router: the policy of its decisions, each number with its reason."""

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of the router.

    Quality. `floors` are pairs (difficulty, quality): from that difficulty on, a model needs at least that quality.
    A difficulty is a rank: 0.4 sends the 60% to a better model that gain most by it (docs/routing-quality.md says what
    that keeps), as long as the kind of text is known. The defaults send what looks easy to any model and the rest to
    the better of the embedded two; they follow from the qualities in the model table and are set together with them.

    Latency. `latency_budget_ms` is the limit on the first token where a request has none (None: no limit).
    `window_samples` and `window_age_s` bound the latency window of a model, and `half_life_s` is the age at which a
    sample counts half: three minutes follow a change of load within one coffee and still hold hundreds of samples at
    2 requests a second. Below `enough_samples` (decayed) the table's prior is mixed in, and the model counts as
    unmeasured. `failure_ms` is the sample that a failed request leaves, so that failing fast does not look good.
    `service_prior_ms` is how long a request holds a slot until that is measured, and `token_ms` the prefill time of
    one waiting prompt token (0.5 is 2,000 tokens a second).

    Choice. `near` is the relative difference within which two costs or two latencies count as equal and are spread;
    `near_ms` is added for latencies, because nobody feels 20 ms. `probe_share` is the share of requests that an
    unmeasured model gets while measured ones would do, and `max_probes` how many of them may be in flight at once;
    after `enough_samples` of them it is measured, so that few requests ever pay for the knowledge. A probe counts until
    its attempt has ended, or for `probe_s`: by then it is in the worker's own count. None is sent while another has
    waited for longer than `probe_patience_ms`. `answer_tokens` is the length of an answer that costs are compared for,
    and `min_answer_tokens` the room that an answer must have.
    `estimate_slack` is by how much a prompt's estimated size may exceed its real one: a request is refused as too long
    only beyond that, because the compressor counts exactly.

    Workers. `gone_s` is the silence after which a worker is gone (it announces itself several times a second) and
    `arrival_s` how long a routed request may be on its way to the worker. `settle_ms` is how long a router that has
    just started waits for a worker's first word, and `learn_s` how long for what the others know of latencies.
    `retry_after_ms` is the advice when no worker is there. When all workers that could answer cool down after failures
    or were asked for a pause, a request waits for the first of them if that is within `wait_ms` and its deadline, and
    no more than `parked` wait.

    Between workers of a model, `affinity` lets count what each has in its prefix cache, and `pressure` is what a ms of
    work per slot weighs beside a ms of the time to the first token; costs within `near_worker` of the least and
    `near_ms` are equal. docs/affinity.md has the measurement. A worker's breaker opens at `breaker_failures` failures
    of late that are at least `breaker_rate` of its results, for `breaker_open_s`, which doubles up to `breaker_most_s`
    while probes fail.

    Limits. `limit` and `waiting` bound the requests handled and in line; a decision takes less than a millisecond.
    """

    floors: tuple[tuple[float, float], ...] = ((0.4, 0.45), (0.75, 0.6))
    latency_budget_ms: float | None = None
    window_samples: int = 1000
    window_age_s: float = 600.0
    half_life_s: float = 180.0
    enough_samples: float = 10.0
    failure_ms: float = 10_000.0
    service_prior_ms: float = 2000.0
    token_ms: float = 0.5
    near: float = 0.15
    near_ms: float = 20.0
    probe_share: float = 0.05
    max_probes: int = 2
    probe_s: float = 5.0
    probe_patience_ms: float = 3000.0
    answer_tokens: int = 200
    min_answer_tokens: int = 32
    estimate_slack: float = 1.5
    gone_s: float = 2.0
    arrival_s: float = 0.05
    settle_ms: float = 600.0
    learn_s: float = 2.0
    wait_ms: float = 5000.0
    parked: int = 64
    retry_after_ms: int = 1000
    affinity: bool = True
    pressure: float = 0.5
    near_worker: float = 0.02
    breaker_failures: float = 3.0
    breaker_rate: float = 0.5
    breaker_open_s: float = 2.0
    breaker_most_s: float = 60.0
    limit: int = 256
    waiting: int = 1024
