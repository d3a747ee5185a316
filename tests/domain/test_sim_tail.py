"""The simulator's uneven first tokens: as many stalls as asked for, the same with the same seed."""

from statistics import median, quantiles

from hasten.models import EngineConfig
from hasten.worker.engines.tail import Tail


def drawn(count: int = 4000, usual_s: float = 0.1, **fields: float) -> list[float]:
    tail = Tail(EngineConfig(kind="sim", sim_seed=7, **fields))  # type: ignore[arg-type]
    return [tail.first_token_s(usual_s) for _ in range(count)]


def test_without_settings_every_first_token_takes_its_usual_time() -> None:
    assert set(drawn(50)) == {0.1}


def test_a_share_of_them_stalls_for_a_time_without_a_limit() -> None:
    times = drawn(sim_slow_share=0.02, sim_slow_ms=1000.0, sim_slow_shape=1.5)
    slow = [one - 0.1 for one in times if one > 0.1]
    assert 0.015 < len(slow) / len(times) < 0.025
    assert min(slow) >= 1.0
    assert 1.3 < median(slow) < 2.0, "2 ** (1 / 1.5) is 1.59"
    assert max(slow) > 5.0


def test_the_others_vary_around_it() -> None:
    times = drawn(sim_spread=0.3)
    assert 0.097 < median(times) < 0.103
    assert 1.5 < quantiles(times, n=20)[-1] / 0.1 < 1.8, "exp(0.3 * 1.645) is 1.64"


def test_a_seed_gives_the_same_draws() -> None:
    assert drawn(100, sim_spread=1.0) == drawn(100, sim_spread=1.0)
    config = EngineConfig(kind="sim", sim_spread=1.0)
    assert Tail(config).first_token_s(0.1) != Tail(config).first_token_s(0.1)
