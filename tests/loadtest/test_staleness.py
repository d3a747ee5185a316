"""The guarantee under random operations and faults, in a size for every run, and proof that the model can find a fault.

`python -m loadtest.staleness` is the same with as many operations as one likes.
"""

import os
import sys
from pathlib import Path

import pytest

from loadtest.staleness.run import search
from loadtest.staleness.world import World, facts_of, questions

SEED = int(os.environ.get("STALENESS_SEED", "20261129"))
CARELESS = Path(__file__).parents[1] / "peers" / "careless_cache.py"


@pytest.mark.parametrize("chat", [False, True], ids=["caches", "orchestrators"])
async def test_no_answer_is_older_than_what_is_binding(tmp_path: Path, chat: bool) -> None:
    operations = 400 if chat else 1000
    kinds = {"pause", "cut", "kill", "consumers"}
    found = await search(operations, SEED, tmp_path, chat=chat, replicas=2, every_s=1.5, kinds=kinds)
    print(f"seed {SEED}: {found}")
    assert (found.violations, found.first) == (0, [])
    assert found.hits["exact"] > operations / 20, "nothing is shown by a cache that hits nothing"
    assert found.counts["invalidate"] > 0
    assert sum(found.faults.values()) > 0


@pytest.mark.parametrize("fault", ["heedless", "hasty"])
async def test_the_model_finds_a_planted_fault(tmp_path: Path, fault: str) -> None:
    command = [sys.executable, str(CARELESS), fault]
    found = await search(5000, SEED, tmp_path, replicas=1, kinds=(), command=command, enough=1)
    assert found.violations > 0
    assert {one.kind for one in found.first} == {"stale"}


def test_what_is_binding_is_judged_by_when_it_was_asked() -> None:
    world, question = World(), questions(1)[0]
    old = world.read("acme", question)
    versions = world.raise_(["prices:0"])
    new = world.read("acme", question)
    world.bind(versions, 10.0, "change")
    assert world.check(old, "acme", question, 9.9), "asked before it was binding"
    assert world.check(new, "acme", question, 11.0)
    assert not world.check(old, "acme", question, 10.0)
    assert not world.check(new, "globex", question, 11.0)
    assert [one.kind for one in world.violations] == ["stale", "tenant"]
    assert (world.violations[0].seen, world.violations[0].required) == (0, 1)


def test_an_answer_about_a_table_depends_on_all_its_rows() -> None:
    found = facts_of("acme", ("stock",))
    assert {"stock:0", "stock:19", "acme/stock:3", "acme/stock", "acme/everything"} <= set(found)
    assert "prices:0" not in found
