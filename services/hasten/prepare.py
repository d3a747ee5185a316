"""Makes, once, what the embedded models need on disk: converted weights and an exported embedder."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from hasten import weights
from hasten.embedder import export
from hasten.embedder.settings import DEFAULT_MODEL
from hasten.models import LARGE, SMALL, Model
from hasten.settings import SettingsError

Say = Callable[[str], None]


async def prepare(data: Path, models: Iterable[Model], embedding_model: str, say: Say) -> None:
    """Makes what these models lack, side by side (about 25 s at the first start, nothing later).

    Raises WeightsMissing or SettingsError, which say what to install.
    """
    work: list[Coroutine[Any, Any, None]] = []
    shipped = {SMALL.engine.path, LARGE.engine.path}
    wanted = any(model.engine.kind == "llama" and model.engine.path in shipped for model in models)
    if wanted and not weights.ready(data):
        weights.shipped_weights()
        work.append(asyncio.to_thread(weights.prepare, data, say))
    if embedding_model == DEFAULT_MODEL and export.state(data) is None:
        work.append(_export(data, say))
    if work:
        await asyncio.gather(*work)


async def _export(data: Path, say: Say) -> None:
    """In a process of its own: torch would keep half a gigabyte and hold this process up."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hasten.embedder.export",
        str(data),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    async for line in process.stdout:
        say(line.decode().rstrip())
    errors = (await process.stderr.read()).decode().strip().splitlines()
    if await process.wait():
        raise SettingsError(errors[-1] if errors else "the embedding model could not be exported")
