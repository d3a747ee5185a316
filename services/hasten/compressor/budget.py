"""Divides the tokens of a prompt among its parts."""

import math
from collections.abc import Mapping

import msgspec

from hasten.messages.failure import Failed

_RUNG = 4 / 3


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """What each part may take of a prompt that has to be cut.

    The system text, the tools and the last user turn take what they need. Of the token budget `examples` and `history`
    get their shares; of what is left after the examples at least `passages` is the passages', and all that the history
    leaves. What the passages do not need goes to the history first, then to the examples. `recall` is the part of the
    history's tokens that is for sentences of rounds that are left out. `floor` counts when the fixed parts alone come
    near the budget or pass it: a long system text must not silence the passages.
    """

    examples: float = 0.2
    history: float = 0.3
    passages: float = 0.4
    recall: float = 0.3
    floor: float = 0.25


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of each part that can be cut, uncut."""

    examples: int = 0
    history: int = 0
    passages: int = 0


def with_shares(shares: Shares, own: Mapping[str, float]) -> Shares:
    """The shares with those that a model has of its own; raises Failed(bad_request) for a part or a number unknown."""
    if unknown := own.keys() - set(Shares.__struct_fields__):
        names = ", ".join(Shares.__struct_fields__)
        raise Failed("bad_request", f"there is no share of {min(unknown)}; there are {names}", param="shares")
    if not all(0 <= share <= 1 for share in own.values()):
        raise Failed("bad_request", "a share is a number from 0 to 1", param="shares")
    return msgspec.structs.replace(shares, **own)


def target(fixed: int, token_budget: int, window: int, shares: Shares) -> int:
    """How long the prompt may be, in tokens: the budget, more where fixed parts fill it, never more than `window`."""
    return min(window, max(token_budget, fixed + int(shares.floor * token_budget)))


def examples_room(room: int, needs: Needs, token_budget: int, shares: Shares) -> int:
    """What the examples may take of `room`: their share, or what the other parts do not need if that is more."""
    spare = rung(room - needs.history - needs.passages)
    return max(0, min(needs.examples, room, max(int(shares.examples * token_budget), spare)))


def history_room(room: int, needs: Needs, token_budget: int, shares: Shares) -> int:
    """What the history may take of `room`: its share, or what the passages do not need if that is more.

    Anything but the share is on a rung: a limit that followed the length of each turn's passages would move the cut,
    and with it the beginning of the prompt, at every turn.
    """
    share = int(shares.history * token_budget)
    guaranteed = min(needs.passages, int(shares.passages * max(0, room)))
    allowed = min(room - guaranteed, max(share, room - needs.passages))
    return share if allowed == share else rung(allowed)


def rung(tokens: int) -> int:
    """The largest power of 4/3 (rounded down) that is not more; 0 for nothing. It grows with `tokens`."""
    if tokens < 1:
        return 0
    at = int(math.log(tokens, _RUNG))
    return next(found for step in (at + 1, at, at - 1) if (found := int(_RUNG**step)) <= tokens)
