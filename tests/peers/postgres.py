"""A real PostgreSQL of one test run, with logical decoding on, and a psql that stays open."""

import asyncio
import os
import pwd
import shutil
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path
from typing import Self

from hasten.nats_server import free_port

CONFIG = """
listen_addresses = '127.0.0.1'
wal_level = logical
fsync = off
wal_writer_delay = 10ms
max_wal_senders = 4
max_replication_slots = 4
"""
ACCOUNTS = ("postgres", "nobody")
END = "-- done --"


def programs() -> Path | None:
    """The folder of the newest server's programs, None when there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = debian[-1] if debian else shutil.which("initdb")
    return Path(found).parent if found else None


def account() -> str | None:
    """Whom the server runs as: it refuses root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ACCOUNTS if name in known)


class Postgres:
    """A server in a folder of its own, which `stop` removes; everybody on this machine may connect as postgres."""

    def __init__(self) -> None:
        found = programs()
        assert found is not None
        self._programs, self._account, self.port = found, account(), free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="hasten-postgres-"))
        self._psql: Process | None = None

    async def start(self) -> Self:
        """Returns when the server and a psql are there."""
        if self._account is not None:
            shutil.chown(self._folder, self._account)
        data = str(self._folder / "data")
        await self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        config = self._folder / "data" / "postgresql.conf"
        with config.open("a") as file:
            file.write(f"{CONFIG}port = {self.port}\nunix_socket_directories = '{self._folder}'\n")
        await self._run("pg_ctl", "-D", data, "-l", str(self._folder / "log"), "-w", "start")
        command = (str(self._programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *self._where())
        self._psql = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=STDOUT)
        return self

    def _where(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "postgres"]

    async def _run(self, program: str, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            str(self._programs / program),
            *arguments,
            cwd=self._folder,
            user=self._account,
            group=None if self._account is None else pwd.getpwnam(self._account).pw_gid,
            extra_groups=None if self._account is None else [],
            stdout=asyncio.subprocess.DEVNULL if program == "pg_ctl" else PIPE,
            stderr=STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, f"{program}: {(said or b'').decode()}"

    async def sql(self, text: str) -> list[str]:
        """Runs statements, each in a transaction of its own, in psql; returns the lines of the results."""
        assert self._psql is not None
        assert self._psql.stdin is not None
        assert self._psql.stdout is not None
        self._psql.stdin.write(f"{text.strip().rstrip(';')};\n\\echo {END}\n".encode())
        await self._psql.stdin.drain()
        lines: list[str] = []
        async with asyncio.timeout(30):
            while (line := (await self._psql.stdout.readline()).decode()) != f"{END}\n":
                assert line, f"psql ended: {lines}"
                lines.append(line.rstrip("\n"))
        return lines

    async def stop(self) -> None:
        """Ends psql and the server and removes the folder."""
        try:
            if self._psql is not None and self._psql.returncode is None:
                self._psql.terminate()
                await self._psql.wait()
            if (self._folder / "data" / "postmaster.pid").exists():
                await self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(self._folder)
