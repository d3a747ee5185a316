"""Workers that join and leave, each a process of its own, while callers ask."""

from loadtest.pipeline import pipeline
from loadtest.scaling import changing

ENGINE = 'kind = "sim", slots = 2, queue = 16, sim_decode_per_s = 100.0, sim_answer = "one two three four five six"'


async def test_workers_join_and_leave_under_load_and_no_request_fails() -> None:
    async with pipeline(ENGINE) as system:
        await system.add_worker("w1")
        await system.add_worker("w2")
        seen = await changing(system, rounds=2)
    assert seen["failed"] == {}
    assert seen["done"] > 0
    assert {"w10", "w11"} <= set(seen["asked_of"]), "those who join are given work"
