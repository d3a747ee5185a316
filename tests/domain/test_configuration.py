"""What `--engine` makes of the model table, and who owns a data folder."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hasten import address
from hasten.models import ModelTable, model_table
from hasten.nats_server import free_port
from hasten.settings import SettingsError
from hasten.system import Wanted, configuration, system, table_file


class Upstream(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that lists one model, to who has the key."""

    def do_GET(self) -> None:
        allowed = self.headers.get("Authorization") == "Bearer k-1" and self.path == "/v1/models"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "org/Model-7B"}]} if allowed else {}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Upstream)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_embedded_is_the_table_as_it_is(tmp_path: Path) -> None:
    assert await configuration(Wanted(data=tmp_path)) == {}


async def test_sim_replaces_every_engine_and_needs_no_weights(tmp_path: Path) -> None:
    table = model_table(await configuration(Wanted(data=tmp_path, engine="sim")))
    assert [model.engine.kind for model in table] == ["sim", "sim"]
    assert [model.name for model in table] == [model.name for model in model_table({})]
    assert {model.tokenizer for model in table} == {""}


async def test_sim_counts_with_the_tokenizer_that_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "smollm2"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text("{}")
    table = model_table(await configuration(Wanted(data=tmp_path, engine="sim")))
    assert {model.tokenizer for model in table} == {"smollm2"}


async def test_an_edit_of_the_config_gets_the_same_engines(tmp_path: Path) -> None:
    path = tmp_path / "hasten.toml"
    path.write_text('[[models]]\nname = "one"\n')
    wanted = Wanted(data=tmp_path, engine="sim", config=path)
    table = ModelTable(model_table(await configuration(wanted)))
    file = table_file(wanted, table)
    assert file is not None
    path.write_text('[[models]]\nname = "one"\n[[models]]\nname = "two"\n')
    file.read()
    assert [(model.name, model.engine.kind) for model in table] == [("one", "sim"), ("two", "sim")]
    assert table_file(Wanted(engine="openai:http://127.0.0.1:1/v1#gpt-x", config=path), table) is None
    assert table_file(Wanted(engine="sim"), table) is None


async def test_an_upstream_server_becomes_the_only_model(upstream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    (model,) = model_table(await configuration(Wanted(engine=f"openai:{upstream}")))
    assert (model.name, model.slug) == ("org/Model-7B", "org-model-7b")
    assert (model.engine.url, model.engine.upstream_model) == (upstream, "org/Model-7B")
    assert model.engine.api_key_env == "OPENAI_API_KEY"


async def test_a_named_upstream_model_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (model,) = model_table(await configuration(Wanted(engine="openai:http://127.0.0.1:1/v1#gpt-x")))
    assert (model.engine.url, model.engine.upstream_model) == ("http://127.0.0.1:1/v1", "gpt-x")
    assert model.engine.api_key_env == ""


@pytest.mark.parametrize(
    "engine", ["", "llama", "openai", "openai:", "openai:nonsense", "openai:http://127.0.0.1:1/v1"]
)
async def test_an_engine_that_cannot_be_is_a_sentence(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="--engine"):
        await configuration(Wanted(engine=engine))


async def test_the_upstream_key_is_in_no_message(upstream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-wrong-secret")
    with pytest.raises(SettingsError) as raised:
        await configuration(Wanted(engine=f"openai:{upstream}?key=sk-hidden"))
    assert "secret" not in str(raised.value)
    assert "hidden" not in str(raised.value)


async def test_a_wrong_address_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--http must be HOST:PORT"):
        async with system(Wanted(http="8080", data=tmp_path / "d"), print):
            pass
    assert not (tmp_path / "d").exists()


def test_an_address_is_that_of_a_process_that_lives(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    address.write(tmp_path, address.Address(nats="nats://127.0.0.1:1", pid=gone.pid))
    assert address.read(tmp_path) is None
    address.write(tmp_path, address.Address(nats="nats://127.0.0.1:2", pid=os.getpid()))
    assert (tmp_path / "address.json").stat().st_mode & 0o077 == 0
    found = address.read(tmp_path)
    assert found is not None
    assert found.nats == "nats://127.0.0.1:2"
    address.remove(tmp_path)
    address.remove(tmp_path)
    assert address.read(tmp_path) is None


def test_the_server_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("HASTEN_NATS", raising=False)
    assert address.nats_url(None, tmp_path) == address.DEFAULT_NATS
    address.write(tmp_path, address.Address(nats="nats://running", pid=os.getpid()))
    assert address.nats_url(None, tmp_path) == "nats://running"
    monkeypatch.setenv("HASTEN_NATS", "nats://environment")
    assert address.nats_url(None, tmp_path) == "nats://environment"
    assert address.nats_url("nats://given", tmp_path) == "nats://given"


def test_a_url_is_shown_without_its_secret() -> None:
    assert address.without_secret("nats://user:hush@host:4222") == "nats://host:4222"
    assert address.without_secret("user:hush@host:4222") == "host:4222"
    assert address.without_secret("nats://host:4222") == "nats://host:4222"


def test_a_preferred_port_is_taken_when_it_is_free() -> None:
    import socket

    port = free_port()
    assert free_port(port) == port
    with socket.create_server(("127.0.0.1", port)):
        assert free_port(port) != port
