"""Reads change events in the shapes that pipelines send and says which tags of which tenant they evict.

`shapes` tells what a message is, `rules` what an operator says of its table, `causes` what follows from both, and
`reader` reads one message after the other. None of it does I/O.
"""

from hasten.changes.reader import ChangeReader, Explained, Reading, evicted, explained
from hasten.changes.rules import BadRule, DocumentRule, Rules, TableRule
from hasten.changes.shapes import UNREADABLE, Event
from hasten.changes.tags import ALL, EVERYBODY, Eviction, above, expanded, reaching

__all__ = [
    "ALL",
    "EVERYBODY",
    "UNREADABLE",
    "BadRule",
    "ChangeReader",
    "DocumentRule",
    "Event",
    "Eviction",
    "Explained",
    "Reading",
    "Rules",
    "TableRule",
    "above",
    "evicted",
    "expanded",
    "explained",
    "reaching",
]
