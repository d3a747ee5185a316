"""What the documentation says exists, and what the container files start can be started."""

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command

from hasten.asyncapi import document, render, topics
from hasten.cli import app
from hasten.models import model_table

ROOT = Path(__file__).parents[1]
SERVICES = ("gateway", "orchestrator", "embedder", "cache", "retriever", "router", "compressor", "worker")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / "services" / "hasten" / service / "README.md" for service in SERVICES),
]
COMMAND = re.compile(r"(?:\$ )?((?:hasten|make) [a-z][^#|&]*)")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")
PLACE = re.compile(r"(?<![\w./-])((?:docs|deploy|examples|loadtest|services|shared|tests)/[\w./-]*\w)")
VARIABLE = re.compile(r"\bHASTEN_([A-Z]+)_([A-Z_]+)\b")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parse(arguments: list[str]) -> dict[str, Any]:
    """Parses arguments with the real command line, running nothing; returns what the command would get."""
    command: Any = get_command(app)
    context = typer.Context(command, info_name="hasten")
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.make_context(name, list(arguments), parent=context, resilient_parsing=False)
        if hasattr(command, "commands"):
            arguments = [*context._protected_args, *context.args]
    return dict(context.params)


def exists(arguments: list[str]) -> bool:
    """Whether a command as it is shown in prose names a command and options that exist."""
    command: Any = get_command(app)
    while arguments and hasattr(command, "commands"):
        if arguments[0] not in command.commands:
            return False
        command, arguments = command.commands[arguments[0]], arguments[1:]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return {word.split("=")[0] for word in arguments if word.startswith("--")} <= known


def settings_of(service: str) -> set[str]:
    return set(import_module(f"hasten.{service}.settings").Settings.__struct_fields__)


def shown(text: str) -> list[str]:
    """The commands in a page: what is in backticks, in fenced blocks and in indented lines, one a line."""
    fenced = [line for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    indented = re.findall(r"^    (\S.*)$", text, re.MULTILINE)
    quoted = re.findall(r"`([^`\n]+)`", text)
    found = [COMMAND.match(line.strip()) for line in (*fenced, *indented, *quoted)]
    return [match[1].strip() for match in found if match]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_in_the_docs_exists(page: Path) -> None:
    unknown = []
    for line in shown(page.read_text()):
        program, *arguments = line.replace("[", " ").replace("]", " ").split()
        known = arguments[0] in TARGETS if program == "make" else exists(arguments)
        if not known:
            unknown.append(line)
    assert unknown == []


def test_the_check_of_commands_would_notice() -> None:
    assert exists(["run", "cache", "--nats", "URL"])
    assert exists(["models", "fetch"])
    assert not exists(["fly"])
    assert not exists(["models", "eat"])
    assert not exists(["run", "cache", "--natz", "URL"])


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_variable_in_the_docs_is_a_setting(page: Path) -> None:
    found = VARIABLE.findall(page.read_text())
    named = {(section.lower(), field.lower()) for section, field in found if section.lower() in (*SERVICES, "changes")}
    assert {(service, field) for service, field in named if field not in settings_of(service)} == set()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_page_section_and_file_that_the_docs_name_is_there(page: Path) -> None:
    text, missing = page.read_text(), []
    for target, section in LINK.findall(text):
        there = page.parent / target if target else page
        if not there.exists() or (section and section not in sections(there)):
            missing.append(target + section)
    missing += [place for place in PLACE.findall(LINK.sub("", text)) if not (ROOT / place).exists()]
    assert missing == []


def sections(page: Path) -> set[str]:
    """What a link can name behind the address of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_model_table_in_the_docs_is_one() -> None:
    table, _ = model_tables()
    assert [model.name for model in model_table(tomllib.loads(table))] == ["qwen-7b", "large"]


def test_the_embedded_models_in_the_docs_are_those_of_no_table() -> None:
    _, table = model_tables()
    assert model_table(tomllib.loads(table)) == model_table({})
    others = re.findall(r"^# (engine = .*)$", table, re.MULTILINE)
    rows = [model_table(tomllib.loads(f'[[models]]\nname = "m"\n{other}'))[0] for other in others]
    assert [row.engine.kind for row in rows] == ["openai", "vllm", "sim"]


def model_tables() -> list[str]:
    """The tables of models in the operator's page."""
    return re.findall(r"```toml\n(\[\[models.*?)```", (ROOT / "docs" / "operations.md").read_text(), re.DOTALL)


def test_the_asyncapi_description_is_fresh() -> None:
    assert (ROOT / "docs" / "asyncapi.json").read_text() == render(), "run `make docs`"


def test_the_asyncapi_description_is_whole() -> None:
    made = document()

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(inner) for inner in value.values()))
        return set().union(*(references(inner) for inner in value)) if isinstance(value, list) else set()

    def resolves(reference: str) -> bool:
        place: Any = made
        for step in reference.removeprefix("#/").split("/"):
            place = place.get(step) if isinstance(place, dict) else None
        return place is not None

    assert made["asyncapi"] == "3.0.0"
    assert {reference for reference in references(json.loads(render())) if not resolves(reference)} == set()
    assert {channel["address"] for channel in made["channels"].values()} - {None} == {one.template for one in topics()}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return loaded


OURS = {name: block for name, block in compose()["services"].items() if block["image"] == "hasten"}


COMMON = {"HASTEN_CONFIG", "HASTEN_METRICS", "OTEL_EXPORTER_OTLP_ENDPOINT"}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_block_of_compose_is_a_command_that_parses(name: str) -> None:
    command = OURS[name]["command"]
    assert command == ["run", command[1], "--nats", "nats://nats:4222"]
    assert name.split("-")[0] == command[1]
    assert parse(command)["service"] in SERVICES
    for variable in set(OURS[name]["environment"]) - COMMON:
        section, field = VARIABLE.fullmatch(variable).groups()  # type: ignore[union-attr]
        assert section.lower() in (command[1], "changes")
        assert field.lower() in settings_of(section.lower())


def test_compose_has_every_service_its_servers_and_every_model() -> None:
    blocks = compose()["services"]
    assert {block["command"][1] for block in OURS.values()} == set(SERVICES)
    assert {"nats", "qdrant"} <= set(blocks)
    assert "--jetstream" in blocks["nats"]["command"]
    for block in OURS.values():
        assert set(block["depends_on"]) <= set(blocks)
    models = {block["environment"]["HASTEN_WORKER_MODEL"] for block in OURS.values() if block["command"][1] == "worker"}
    assert models == {model.name for model in model_table({})}


def test_the_image_starts_a_command_that_parses() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[0]) == ["hasten"]
    assert parse(json.loads(re.findall(r"^CMD (.*)$", text, re.MULTILINE)[0]))["http"] == "0.0.0.0:8080"
    for fetched in re.findall(r"/bin/hasten ([^;]*)", text):
        parse(fetched.split())
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (ROOT / name).exists()] == []


def test_the_docs_say_what_was_not_run() -> None:
    assert "no container has been started" in (ROOT / "docs" / "operations.md").read_text()
