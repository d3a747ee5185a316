"""Divides the tokens of a prompt among its parts."""

import msgspec


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """What examples and history may take of a prompt that has to be cut, and what is guaranteed to all that can be cut.

    `floor` counts when the fixed parts alone come near the budget or pass it: a long system text must not silence the
    passages. All are shares of the token budget.
    """

    examples: float = 0.2
    history: float = 0.3
    floor: float = 0.25


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of each part that can be cut, uncut."""

    examples: int = 0
    history: int = 0
    passages: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.examples + self.history + self.passages


def target(fixed: int, token_budget: int, window: int, shares: Shares) -> int:
    """How long the prompt may be, in tokens: the budget, more where fixed parts fill it, never more than `window`."""
    return min(window, max(token_budget, fixed + int(shares.floor * token_budget)))


def examples_room(room: int, needs: Needs, token_budget: int, shares: Shares) -> int:
    """What the examples may take of `room`."""
    return max(0, min(needs.examples, room, int(shares.examples * token_budget)))


def history_room(room: int, needs: Needs, token_budget: int, shares: Shares) -> tuple[int, int]:
    """What the history may take of `room`, and the step by which it is cut.

    It gets its share, or as many whole shares as the passages do not need: a limit that followed the length of each
    turn's passages would move the cut, and with it the beginning of the prompt, at every turn. The step is half of it.
    """
    share = max(1, int(shares.history * token_budget))
    spare = max(0, room - needs.passages) // share * share
    allowed = max(0, min(room, max(share, spare)))
    return allowed, allowed // 2
