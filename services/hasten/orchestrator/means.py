"""What all paths of one replica use."""

from collections.abc import Callable

import msgspec

from hasten.bus import Bus
from hasten.freshness import Freshness
from hasten.messages.cache import Answer
from hasten.messages.compress import Compressed
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.guard.rules import Guard
from hasten.orchestrator.hedge import Hedges
from hasten.orchestrator.meter import Tools
from hasten.orchestrator.recent import Recent
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.verification.checks import Checks
from hasten.orchestrator.verification.support import Shelf

OnPrompt = Callable[[Flight, Compressed, Answer, Tools], None]


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """`on_prompt` is called with the prompt of each answer that was generated; `hedges` is the budget for second
    attempts, `guard` has the rules on what is shown, `checks` are of whole answers, and the `shelf` holds the passages
    that answers cite."""

    bus: Bus
    settings: Settings
    freshness: Freshness
    recent: Recent
    hedges: Hedges
    guard: Guard
    checks: Checks
    shelf: Shelf
    on_prompt: OnPrompt

    def epoch(self, tenant: str) -> str:
        """What replicas have in common that share what is made for a tenant: the stream of changes, and the rules."""
        return self.freshness.epoch + self.guard.of(tenant).mark


def means_of(bus: Bus, settings: Settings, freshness: Freshness, on_prompt: OnPrompt) -> Means:
    """Those that the settings ask for; raises SettingsError for rules and checks that cannot be kept."""
    return Means(
        bus=bus,
        settings=settings,
        freshness=freshness,
        recent=Recent(settings.recent_entries, settings.recent_s),
        hedges=Hedges(settings.hedge_share, settings.hedge_burst),
        guard=Guard(bus, settings.guard),
        checks=Checks(bus, settings.checks),
        shelf=Shelf(),
        on_prompt=on_prompt,
    )
