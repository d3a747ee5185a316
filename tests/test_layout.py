"""The shape of the repository: knowing one service is knowing all, and nothing lives where it should not."""

import ast
import re
import tomllib
import zipfile
from fnmatch import fnmatch
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOTS = (ROOT / "services" / "hasten", ROOT / "shared" / "hasten")
SERVICES = ("gateway", "orchestrator", "embedder", "cache", "retriever", "router", "compressor", "worker")
ANATOMY = ("__init__.py", "__main__.py", "service.py", "settings.py", "README.md")
MODULES = sorted(path for root in ROOTS for path in root.rglob("*.py"))
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc", "tools", "base", "core", "lib"}
LONGEST = 400


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def project() -> dict[str, dict[str, object]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_the_same_files(service: str) -> None:
    folder = ROOTS[0] / service
    assert [name for name in ANATOMY if not (folder / name).is_file()] == []
    lines = (folder / "__main__.py").read_text().split("\n")
    assert lines == ["from hasten.run import main", "", f'main("{service}")', ""]
    body = ast.parse((folder / "__init__.py").read_text()).body
    assert len(body) == 1
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert any(says_it_is_pure(path) for path in folder.rglob("*.py")), "domain.py, or pure modules with names"


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_found_through_its_entry_point(service: str) -> None:
    found = {point.name: point.value for point in entry_points(group="hasten.services")}
    assert found[service] == f"hasten.{service}"
    assert set(found) == set(SERVICES)


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_has_a_default_and_is_explained(service: str) -> None:
    from importlib import import_module

    kind = import_module(f"hasten.{service}.settings").Settings
    kind()
    unexplained = [field for field in kind.__struct_fields__ if f"`{field}`" not in (kind.__doc__ or "")]
    assert unexplained == []


def test_the_namespace_has_two_roots_and_no_name_in_both() -> None:
    assert [name_of(root / "__init__.py") for root in ROOTS if (root / "__init__.py").exists()] == []
    services, shared = ({path.stem for path in root.iterdir() if path.name != "__pycache__"} for root in ROOTS)
    assert services & shared == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_and_stays_readable(path: Path) -> None:
    text = path.read_text()
    assert path.stem not in VAGUE
    assert text.count("\n") <= LONGEST
    if path.name != "__main__.py":
        assert ast.get_docstring(ast.parse(text)), "a module begins with a sentence"


@pytest.mark.parametrize("path", [path for path in MODULES if "messages" not in path.parts], ids=name_of)
def test_subjects_are_spelt_in_the_messages_only(path: Path) -> None:
    """Strings in the code, docstrings aside: a subject is made by its topic. `journal` names what the stream captures
    and `topics` the prefix."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose]
    spelt = [node.value for node in strings if isinstance(node.value, str) and "hasten.v1" in node.value]
    allowed = {"journal.py": {"hasten.v1.change.>", "hasten.v1.document.>"}, "topics.py": {"hasten.v1"}}
    assert set(spelt) <= allowed.get(path.name, set())


def test_tests_have_unique_names_and_are_no_package() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_the_pure_modules_are_kept_pure() -> None:
    """Every `domain` module, and every module of a service that calls itself pure, is under the import contract."""
    contracts = project()["tool"]["importlinter"]["contracts"]  # type: ignore[index]
    listed = next(contract["source_modules"] for contract in contracts if contract["id"] == "pure")
    modules = [dotted(path) for path in MODULES if says_it_is_pure(path)]
    assert [module for module in modules if not any(fnmatch(module, pattern) for pattern in listed)] == []


def dotted(path: Path) -> str:
    """The module of a file: hasten.cache.domain."""
    return name_of(path).split("/", 1)[1].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def says_it_is_pure(path: Path) -> bool:
    opening = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
    return path.name == "domain.py" or re.search(r"\bpure\b", opening) is not None


def test_the_wheel_holds_services_and_shared_code(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    built = next(iter(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
    expected = {f"hasten/{path.relative_to(root)}" for root in ROOTS for path in root.rglob("*.py")}
    assert expected <= names
    assert {f"hasten/{service}/README.md" for service in SERVICES} <= names
    assert "hasten/__init__.py" not in names
    assert not [name for name in names if name.startswith(("services/", "shared/", "tests/"))]
