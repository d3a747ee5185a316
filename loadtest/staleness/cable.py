"""A TCP relay that can stop carrying bytes without closing anything: what a lost network looks like from both ends."""

import asyncio
from typing import Self


class Cable:
    """Relays to a port of 127.0.0.1 for as long as it is entered; nothing passes while `cut` is clear."""

    def __init__(self, port: int) -> None:
        self._port, self._tasks = port, set[asyncio.Task[None]]()
        self.url, self.cut = "", asyncio.Event()
        self.cut.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.get_running_loop().create_task(self._carry(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self.cut.wait()
                target.write(data)
        except OSError:
            pass
        finally:
            target.close()

    def drop(self) -> None:
        """Ends every connection at once; new ones are carried."""
        for task in list(self._tasks):
            task.cancel()

    async def __aexit__(self, *exc: object) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server.close()
