"""POST /v1/invalidate: answers that must not be given any more, over HTTP; for operators' keys."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.gateway.access import operator_of
from hasten.gateway.body import Gone, read_object
from hasten.gateway.domain import check_tenant
from hasten.gateway.settings import Settings
from hasten.keys import KeyRing
from hasten.messages.cache import INVALIDATE, Invalidate
from hasten.messages.failure import Failed, Failure, without_value

WHAT = ("tags", "documents", "entries", "models", "everything", "request_id", "event")
"""The fields that say what to remove; the others say how."""


class Removal:
    """The endpoint: an Invalidate in, an Invalidation out, as on the bus. Its tenant is that of the key."""

    def __init__(self, bus: Bus, settings: Settings, keys: KeyRing) -> None:
        self._bus, self._settings, self._keys = bus, settings, keys

    async def invalidate(self, request: Request) -> Response:
        """Returns when no replica serves what was named; raises Failed."""
        caller = operator_of(request.headers, self._keys)
        limit, timeout_s = self._settings.max_body_bytes, self._settings.read_timeout_s
        try:
            plain = await read_object(request.headers, request.receive, limit=limit, timeout_s=timeout_s)
        except Gone:
            return Response(status_code=499)
        check_tenant(caller.tenant, plain.pop("tenant", None), plain.pop("tenant_id", None))
        deadline_ms = now_ms() + self._settings.deadline_s * 1000
        done = await self._bus.request(INVALIDATE, wanted(plain), deadline_ms=deadline_ms, tenant=caller.tenant)
        if isinstance(done, Failure):
            raise Failed.of(done)
        return Response(msgspec.json.encode(done), media_type="application/json")


def wanted(plain: dict[str, object]) -> Invalidate:
    """The body as an Invalidate. Raises Failed(bad_request), also for a field that is not known: a slip in `dry_run`
    would remove what was only to be listed."""
    if unknown := sorted(plain.keys() - set(Invalidate.__struct_fields__)):
        fields = ", ".join(Invalidate.__struct_fields__)
        raise Failed("bad_request", f"a field is not known; there are {fields}", param=unknown[0])
    try:
        what = msgspec.convert(plain, Invalidate)
    except msgspec.ValidationError as error:
        raise Failed("bad_request", without_value(str(error))) from None
    if not any(getattr(what, name) for name in WHAT):
        raise Failed("bad_request", f"nothing is named: say one of {', '.join(WHAT)}")
    return what
