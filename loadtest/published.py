"""Figures that others have published for the same data, to set ours beside: good hits at a share of wrong hits."""

import msgspec


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: good hits among answerable pairs at this share of wrong ones among hits, or traps served."""

    data: str
    method: str
    wrong_of_hits: float | None = None
    good_hits: float | None = None
    traps_served: float | None = None


PUBLISHED = (
    Published(data="fow_cache", method="MiniLM cosine, published", wrong_of_hits=0.05, good_hits=0.29),
    Published(data="fow_cache", method="MiniLM cosine, published", wrong_of_hits=0.01, good_hits=0.12),
    Published(data="fow_cache", method="best published embedding", wrong_of_hits=0.05, good_hits=0.41),
    Published(data="fow_cache", method="best published embedding", wrong_of_hits=0.01, good_hits=0.31),
    Published(data="fow_cache", method="GPTCache's default, published", traps_served=0.81),
    Published(data="conversations", method="last message alone, published", traps_served=0.98),
)
"""From the README of fow-cache 0.1.0, on its whole data; what is measured here is on the files that are given."""
