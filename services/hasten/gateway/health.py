"""What operators and balancers ask: whether the process lives, whether it can answer, and its figures."""

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from hasten.bus import Bus
from hasten.discovery import running
from hasten.telemetry import REGISTRY


class Health:
    """Endpoints that need no key and show nothing of any tenant."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def healthz(self, _: Request) -> Response:
        """200 as long as the process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _: Request) -> Response:
        """200 if a chat could be answered now, else 503 with the reasons."""
        reasons = await self._reasons()
        body = {"ready": not reasons, "reasons": reasons}
        return Response(msgspec.json.encode(body), 503 if reasons else 200, media_type="application/json")

    async def _reasons(self) -> list[str]:
        if not self._bus.connected:
            return ["NATS cannot be reached"]
        return [] if await running(self._bus, "orchestrator") else ["no orchestrator is running"]

    async def metrics(self, _: Request) -> Response:
        """This process's metrics in Prometheus's text format."""
        return Response(generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})
