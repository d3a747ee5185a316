"""Asking why a request hits or misses, without an answer being made."""

from typing import Literal

from hasten.messages.cache import Explained
from hasten.messages.chat import ChatRequest, parse_chat
from hasten.messages.compress import Part
from hasten.messages.failure import Failure
from hasten.topics import Body, Reply, Topic

Permission = Literal["exact", "meaning", "share", "store"]


class Prompted(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt that an answer would be generated from at this moment, and what became of its parts.

    `tokens_before` is what everything would have cost and `tokens_after` what is sent to `model`, counted with its own
    tokenizer; `stable_tokens` of them are the same for every request of the template. `token_budget` was the aim, and
    `context_window` is the limit for prompt and answer. `missing` maps each service that did not answer (retriever,
    router, compressor) to the reason; without a router or a compressor there are no counts. `empty` are collections and
    look-ups in which nothing was found, `skipped` maps look-ups that were left out to the reason.
    """

    model: str = ""
    token_budget: int = 0
    context_window: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    stable_tokens: int = 0
    parts: list[Part] = []
    missing: dict[str, str] = {}
    empty: list[str] = []
    skipped: dict[str, str] = {}


class Explanation(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """Where the answer to a request would come from at this moment, and why.

    `outcome` is exact, semantic or miss, with `entry_id` for a hit and `reason` for a miss. `may_not` maps what the
    request may not do (be found by key: `exact`, be found by `meaning`, `share` a running generation, be the source of
    a `store`d answer) to the reason; what is not named it may do. `key` and `partition` are short hashes and `parts`
    those of what the partition is made of. `tags` are what an answer would depend on besides its documents, its model
    and itself. `lookup` is the cache's own account, absent when no cache answered.
    `prompt` is what an answer would be generated from; its pieces have their text where the request says `explain`.
    """

    outcome: Literal["exact", "semantic", "miss"]
    reason: str = ""
    entry_id: str = ""
    key: str
    partition: str
    parts: dict[str, str] = {}
    may_not: dict[str, str] = {}
    tags: list[str] = []
    lookup: Explained | None = None
    prompt: Prompted | None = None


EXPLAIN = Topic(
    name="explain",
    template="hasten.v1.explain.{tenant}",
    request=ChatRequest,
    reply=Explanation | Failure,
    queue="orchestrator",
    decode=parse_chat,
    summary="Say why a chat request would hit or miss; nothing is generated or stored.",
)
TOPICS = (EXPLAIN,)
