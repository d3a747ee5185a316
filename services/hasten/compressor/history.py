"""Takes a conversation apart into what is always kept and what may go, and decides which old turns go."""

from collections.abc import Iterable, Sequence

import msgspec

from hasten.messages.chat import SYSTEM_ROLES, Turn

Turns = list[Turn]


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of a request by their part in it.

    `rounds` are what was said before: each starts with a user's turn (the first may not) and holds everything up to
    the next, so that a tool call and its results are in one round. `user` is the last user turn; `steps` are what came
    after it: an assistant's turn with the tool results that answer it.
    """

    system: Turns
    rounds: list[Turns]
    user: Turn | None
    steps: list[Turns]


def conversation(messages: Iterable[Turn]) -> Conversation:
    """Sorts the messages; those of the system and the developer are taken to the start, in the order they came.

    A tool's result without a call before it is left out: whoever cut the conversation has lost the call, and engines
    refuse the result. One that names no call belongs to any.
    """
    system: Turns = []
    others: Turns = []
    called, made = False, set[str]()
    for turn in messages:
        called = called or bool(turn.tool_calls)
        made |= calls([turn])
        if turn.role in SYSTEM_ROLES:
            system.append(turn)
        elif turn.role != "tool" or (called and (not turn.tool_call_id or turn.tool_call_id in made)):
            others.append(turn)
    last = max((at for at, turn in enumerate(others) if turn.role == "user"), default=-1)
    if last < 0:
        return Conversation(system=system, rounds=[], user=None, steps=_groups(others, "assistant"))
    return Conversation(
        system=system,
        rounds=_groups(others[:last], "user"),
        user=others[last],
        steps=_groups(others[last + 1 :], "assistant"),
    )


def _groups(turns: Turns, opener: str) -> list[Turns]:
    """Divides turns before each opener, but never between a tool call and a result that is still to come."""
    answered = results(turns)
    groups: list[Turns] = []
    waiting: set[str] = set()
    for turn in turns:
        if not groups or (turn.role == opener and not waiting):
            groups.append([])
        groups[-1].append(turn)
        waiting |= calls([turn]) & answered
        waiting -= results([turn])
    return groups


def calls(turns: Iterable[Turn]) -> set[str]:
    """The ids of the tool calls made in these turns."""
    made = (call.get("id") for turn in turns for call in turn.tool_calls or [])
    return {call for call in made if isinstance(call, str)}


def results(turns: Iterable[Turn]) -> set[str]:
    """The ids of the tool calls whose results these turns bring."""
    return {turn.tool_call_id for turn in turns if turn.role == "tool" and turn.tool_call_id}


def pinned(turns: Iterable[Turn]) -> bool:
    """Whether the caller marked one of these turns with `"keep": true`."""
    return any(turn.extra.get("keep") is True for turn in turns)


def keep(sizes: Sequence[int], fixed: Sequence[bool], limit: int) -> list[bool]:
    """Which of the rounds (oldest first, with their sizes) stay so that at most `limit` tokens are left.

    The oldest go first, `fixed` ones never. What goes is rounded up to a multiple of half the limit counted from the
    first round, so that the same rounds go again at the next turns, and the prompt goes on from the same beginning,
    until another step is full. More than half of the limit is always used, so twice the limit never leaves less. When
    fixed rounds alone are over the limit, they alone are left.
    """
    loose = [at for at, stays in enumerate(fixed) if not stays]
    total = sum(sizes[at] for at in loose)
    limit = max(0, limit - sum(sizes) + total)
    step = max(1, limit // 2)
    gone, wanted = 0, -(-max(0, total - limit) // step) * step
    kept = [True] * len(sizes)
    for at in loose:
        if gone >= wanted:
            break
        kept[at] = False
        gone += sizes[at]
    return kept
