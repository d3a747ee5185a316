"""A network that can fail without anybody being told: a relay to the server that stops carrying bytes."""

import asyncio
from typing import Self


class Cable:
    """A TCP relay to the server that stops carrying bytes, without closing anything, while `cut` is clear."""

    def __init__(self, port: int) -> None:
        self._port, self._tasks = port, set[asyncio.Task[None]]()
        self._ends: list[asyncio.StreamWriter] = []
        self.url, self.cut = "", asyncio.Event()
        self.cut.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends += [writer, back]
        for source, target in ((reader, back), (there, writer)):
            self._tasks.add(asyncio.get_running_loop().create_task(self._carry(source, target)))

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self.cut.wait()
            target.write(data)
        target.close()

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in self._ends:
            end.close()
        await asyncio.gather(*(end.wait_closed() for end in self._ends), return_exceptions=True)
        self._server.close()
