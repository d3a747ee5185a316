"""A hit by meaning is recorded for each of its readers, also for those who read it along from another replica."""

from typing import Any

from patience import until
from replica_rig import ASK, Replicas, events_of, peers, replicas
from scripted_peers import ANSWER, Scripted

from hasten.codec import decode
from hasten.fingerprint import question_hash
from hasten.messages.cache import SERVED, Answer, CacheHit, Served
from hasten.messages.chat import FINISHED, Finished

__all__ = ["peers", "replicas"]


async def test_followers_elsewhere_can_be_told_by_their_request_as_well(replicas: Replicas, peers: Scripted) -> None:
    served: dict[str, Served] = {}
    finished: dict[str, Finished] = {}

    async def hear_served(msg: Any) -> None:
        served[SERVED.parse(msg.subject)["request_id"]] = decode(Served, msg.data)

    async def hear_finished(msg: Any) -> None:
        event = decode(Finished, msg.data)
        finished[event.request_id] = event

    await replicas.client.subscribe(SERVED.pattern, hear_served)
    await replicas.client.subscribe(FINISHED.pattern, hear_finished)
    leader, other = await replicas.add(), await replicas.add()
    peers.semantic = CacheHit(kind="semantic", entry_id="e7", answer=Answer(text=ANSWER), similarity=0.93, lives_s=60)
    peers.delays = {"semantic": 1.0, "route": 30.0}
    first = await replicas.stream(leader, request_id="r1")
    await until(lambda: ("semantic", "began") in peers.log)
    second = await replicas.stream(other, request_id="r2")
    for stream in (first, second):
        assert (await events_of(stream))[-1].cache == "semantic"
    await until(lambda: {"r1", "r2"} <= served.keys() & finished.keys())
    expected = Served(entry_id="e7", question=question_hash(ASK["messages"][0]["content"]))
    assert [served["r1"], served["r2"]] == [expected, expected]
    assert {(one.entry_id, one.similarity) for one in finished.values()} == {("e7", 0.93)}
