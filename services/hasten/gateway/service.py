"""The gateway as a service: its HTTP server, the key ring, and its answers to `$SRV`."""

import asyncio
from typing import Any

from hasten.bus import Bus
from hasten.gateway.app import build_app
from hasten.gateway.chat import Chat
from hasten.gateway.embeddings import Embeddings
from hasten.gateway.event_stream import EventStream
from hasten.gateway.face import Face
from hasten.gateway.health import Health
from hasten.gateway.models import Catalogue
from hasten.gateway.native import Native
from hasten.gateway.rates import Rates
from hasten.gateway.server import HttpServer
from hasten.gateway.settings import Settings
from hasten.gateway.socket import Socket
from hasten.keys import KeyRing
from hasten.messages.streamed import TAKEN, Taken
from hasten.service import Service


class Gateway:
    """The gateway service. `start`, `drain` and `close` are its life."""

    def __init__(self, bus: Bus, settings: Settings, keys: KeyRing) -> None:
        self._keys = keys
        self._taking: set[asyncio.Task[None]] = set()
        self._rates = Rates(bus)
        self._chat = Chat(bus, settings, keys, self._rates)
        embeddings, catalogue = Embeddings(bus, settings, keys, self._rates), Catalogue(bus, keys)
        self._face = Face(bus, settings, keys)
        self._native = Native(bus, settings, self._rates)
        self._socket = Socket(self._native, settings, keys)
        streams = EventStream(self._native, settings, keys)
        more = [*self._face.routes, *streams.routes, *self._socket.routes]
        self._app = build_app(self._chat, embeddings, catalogue, Health(bus), limit=settings.max_requests, more=more)
        self._http = HttpServer(
            self._app,
            settings.http,
            read_timeout_s=settings.read_timeout_s,
            write_timeout_s=settings.write_timeout_s,
            max_header_bytes=settings.max_header_bytes,
            max_body_bytes=settings.max_body_bytes,
            ping_s=settings.ping_s,
        )
        self.service = Service(bus, "gateway", "Serves OpenAI's HTTP API", report=self.report)
        self.service.listen(TAKEN, self._on_taken)

    @property
    def url(self) -> str:
        """Where it is reached, with the real port; valid once it has started."""
        return f"http://{self._http.address}"

    async def start(self) -> None:
        """Returns when requests are answered; raises SettingsError for an address it cannot have, and Failed."""
        await self._keys.start()
        await self._face.start()
        await self._http.start()
        await self.service.start()

    def _on_taken(self, taken: Taken, tokens: dict[str, str]) -> None:
        task = asyncio.get_running_loop().create_task(self._native.taken(writer=taken.writer, **tokens))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    def report(self) -> dict[str, Any]:
        """Figures for `$SRV.STATS`."""
        return {
            "http": self.url,
            "connections": self._http.connections,
            "requests": self._app.active,
            "chats": self._chat.live,
            "streams": self._native.live,
        }

    async def drain(self) -> None:
        """Accepts nothing more and returns when every answer has been sent."""
        self._face.end()
        await self._http.drain()
        await self.service.drain()

    async def close(self) -> None:
        """Ends what is left: each stream with an error that says why."""
        self._chat.end_all()
        self._native.end_all()
        await self._socket.end_all()
        self._face.end()
        await self._http.close()
        await self._face.close()
        await self._rates.close()
        await self._keys.close()
        await self.service.close()


def build(settings: Settings, bus: Bus) -> Gateway:
    """The gateway with its own view of the keys."""
    return Gateway(bus, settings, KeyRing(bus))
