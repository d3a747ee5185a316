"""What one event may cost: too many tags, or too long ones, evict the level above."""

from typing import Any

import msgspec
import pytest

from hasten.changes import ALL, evicted


@pytest.mark.parametrize(
    ("body", "tags"),
    [
        ({"tags": [f"prices:{n}" for n in range(5000)]}, ["prices"]),
        ({"tags": [f"tag{n}" for n in range(5000)]}, [ALL]),
        ({"tags": ["prices:" + "x" * 5000, "stock:1"]}, ["prices", "stock:1", "stock:*"]),
        ({"tags": ["x" * 5000]}, [ALL]),
        ({"tableChanges": [{"id": f"public.t{n}"} for n in range(5000)]}, [ALL]),
        ({"tableChanges": [{"id": "x" * 5000}]}, [ALL]),
        ({"op": "d", "before": {"id": 7}, "source": {"table": "x" * 5000}}, ["shop:7", "shop:*"]),
        ({"table": "x" * 5000, "key": 7}, ["shop"]),
        ({"table": "prices", "key": {f"column{n}": "x" * 100 for n in range(500)}}, ["prices"]),
    ],
)
def test_what_is_too_much_to_be_remembered_evicts_what_is_above_it(body: dict[str, Any], tags: list[str]) -> None:
    """A tenant may send events too, and each of its tags is kept by every replica."""
    (found,) = evicted("hasten.v1.change._tenant.acme.shop", {}, msgspec.json.encode(body))
    assert (found.tenant, found.tags) == ("acme", tags)
