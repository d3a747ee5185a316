"""Which subjects another one covers, wildcards and all; pure."""

from collections.abc import Iterable


def widest(subjects: Iterable[str]) -> list[str]:
    """The subjects without those that another one of them covers: a server takes no stream whose subjects overlap."""
    different = list(dict.fromkeys(subjects))
    return [one for one in different if not any(covers(other, one) for other in different if other != one)]


def covers(wide: str, narrow: str) -> bool:
    """Whether every subject that `narrow` matches is matched by `wide` too."""
    mine, others = wide.split("."), narrow.split(".")
    if mine[-1] == ">" and len(others) >= len(mine):
        mine, others = mine[:-1], others[: len(mine) - 1]
    elif len(mine) != len(others) or others[-1] == ">":
        return False
    return all(other != ">" and token in ("*", other) for token, other in zip(mine, others, strict=True))
