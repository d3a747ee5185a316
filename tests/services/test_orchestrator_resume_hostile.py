"""What a tenant may say in a Resume: it ends in a failure that says what is wrong, which is none of the service."""

from typing import Any

import pytest
from replica_rig import ASK, Replicas, events_of, peers, replicas
from scripted_peers import Scripted

from hasten.messages.chat import Done
from hasten.messages.failure import Failure
from hasten.messages.resume import RESUME, Resume

__all__ = ["peers", "replicas"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"last": 3}, "not_found"),
        ({"last": 3, "replica": "a.b.>"}, "bad_request"),
        ({"last": 3, "replica": "*"}, "bad_request"),
        ({"last": 3, "replica": "a" * 500}, "bad_request"),
        ({"last": -100, "request": ASK}, "incomplete"),
        ({"last": 10**400, "request": ASK}, "incomplete"),
        ({"last": 0, "request": ASK, "shown": ["forged"], "model": "m", "prompt": "x"}, "incomplete"),
        ({"last": 0, "request": {"messages": 5}}, "bad_request"),
        ({"last": -1, "request": ASK, "asked_ms": -(10**400)}, "done"),
        ({"last": -1, "request": ASK, "asked_ms": 10**400}, "done"),
        ({"last": -1, "request": {**ASK, "max_tokens": 10**400}}, "bad_request"),
        ({"last": -1, "request": {**ASK, "seed": -(10**400)}}, "bad_request"),
    ],
)
async def test_a_forged_resume(replicas: Replicas, peers: Scripted, body: dict[str, Any], code: str) -> None:
    await replicas.add()
    stream = await replicas.client.stream(RESUME, Resume(**body), tenant="acme", idle_s=20)
    last = (await events_of(stream))[-1]
    assert isinstance(last, Done | Failure)
    assert ("done" if isinstance(last, Done) else last.code) == code
