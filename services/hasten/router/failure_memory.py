"""Which workers a request has failed at lately, so that a retry under the same id goes elsewhere; pure."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hasten.messages.attempt import Attempted
from hasten.messages.failure import RETRYABLE
from hasten.messages.route import Route
from hasten.router.workers import Load

KEPT_S = 120.0
MOST = 10_000


class FailureMemory:
    """Workers by model, per request (`tenant/id`); times are unix seconds of the events themselves."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[float, list[tuple[str, str]]]] = OrderedDict()

    def hear(self, slug: str, event: Attempted) -> None:
        """Takes in how an attempt went; only those that failed say whose they were."""
        if not event.request or event.outcome not in RETRYABLE:
            return
        _, known = self._failed.pop(event.request, (0.0, []))
        self._failed[event.request] = event.at_ms / 1000, [*known, (slug, event.worker)]
        if len(self._failed) > MOST:
            self._failed.popitem(last=False)

    def routes(
        self, request: Route, tenant: str, loads: Mapping[str, Sequence[Load]], unix_s: float
    ) -> Iterator[Route]:
        """The request as it should be decided, in order of preference: without the models that it failed at, without
        the workers, and with whatever there is."""
        at_s, failed = self._failed.get(f"{tenant}/{request.request_id}", (0.0, []))
        if failed and unix_s - at_s < KEPT_S:
            models = [load.name for slug in dict(failed) for load in loads.get(slug, ())]
            workers = [worker for _, worker in failed]
            for more in (models, workers):
                yield msgspec.structs.replace(request, exclude=[*request.exclude, *more])
        yield request
