"""What the web page needs of the gateway: its files, the live board, the names to choose from, and its buttons."""

from starlette.routing import Route

from hasten.bus import Bus
from hasten.gateway.collection import Collections
from hasten.gateway.live import Live
from hasten.gateway.removal import Removal
from hasten.gateway.settings import Settings
from hasten.gateway.static import Static
from hasten.keys import KeyRing


class Face:
    """The routes of the page. `start`, `end` and `close` are those of the board."""

    def __init__(self, bus: Bus, settings: Settings, keys: KeyRing) -> None:
        self._live = Live(bus, settings, keys)
        static, removal = Static(), Removal(bus, settings, keys)
        self.routes = [
            Route("/", static.index),
            Route("/page/{name}", static.file),
            Route("/v1/board", self._live.board),
            Route("/v1/collections", Collections(bus, keys).every),
            Route("/v1/invalidate", removal.invalidate, methods=["POST"]),
        ]

    async def start(self) -> None:
        """Returns when the board hears what happens."""
        await self._live.start()

    def end(self) -> None:
        """Ends the boards that are being read."""
        self._live.end()

    async def close(self) -> None:
        """Hears no more."""
        await self._live.close()
