"""What all paths of one replica use."""

from collections.abc import Callable

import msgspec

from hasten.bus import Bus
from hasten.freshness import Freshness
from hasten.messages.cache import Answer
from hasten.messages.compress import Compressed
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.hedge import Hedges
from hasten.orchestrator.meter import Tools
from hasten.orchestrator.recent import Recent
from hasten.orchestrator.settings import Settings

OnPrompt = Callable[[Flight, Compressed, Answer, Tools], None]


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """`on_prompt` is called with the prompt of each answer that was generated; `hedges` is the budget for second
    attempts."""

    bus: Bus
    settings: Settings
    freshness: Freshness
    recent: Recent
    hedges: Hedges
    on_prompt: OnPrompt
