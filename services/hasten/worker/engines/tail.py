"""How unevenly the simulator's first tokens come: a spread around the usual time, and now and then a stall.

The shape that real engines have: most requests are served in about the same time, and a few wait for a preemption, a
cold cache or a neighbour, without a largest value (J. Dean and L. A. Barroso, The Tail at Scale, 2013).
"""

import math
import random

from hasten.models import EngineConfig


class Tail:
    """Draws of one engine, in the order of its requests."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._draws = random.Random(config.sim_seed or None)

    def first_token_s(self, usual_s: float) -> float:
        """When a first token comes that usually takes `usual_s` seconds."""
        config, draws = self._config, self._draws
        spread, stalls, stall = draws.gauss(0.0, 1.0), draws.random(), draws.paretovariate(config.sim_slow_shape)
        late_s = config.sim_slow_ms / 1000 * stall if stalls < config.sim_slow_share else 0.0
        return usual_s * math.exp(config.sim_spread * spread) + late_s
