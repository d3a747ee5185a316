"""The import contracts hold, and would notice: a rule that nothing can break is no rule."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = "import sys; from importlinter.cli import lint_imports_command as run; sys.argv[0] = 'lint-imports'; run()"


def lint(root: Path) -> tuple[int, str]:
    """Lints a copy; without `site` (-S), because an editable install would put the original beside it."""
    roots = os.pathsep.join([str(root / "services"), str(root / "shared"), sysconfig.get_paths()["purelib"]])
    command = [sys.executable, "-S", "-c", LINT, "--no-logo", "--no-cache", str(root / "pyproject.toml")]
    done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": roots}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("services", "shared"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    code, said = lint(copy)
    assert code == 0, said


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("services/hasten/router/service.py", "import hasten.cache.domain", "hasten.router is not allowed"),
        ("services/hasten/worker/service.py", "import hasten.system", "hasten.worker is not allowed"),
        ("shared/hasten/models.py", "import hasten.router.settings", "hasten.models is not allowed"),
        ("shared/hasten/topics.py", "import hasten.bus", "hasten.topics is not allowed"),
        ("services/hasten/cache/domain.py", "import asyncio", "hasten.cache.domain is not allowed to import asyncio"),
        ("services/hasten/worker/domain.py", "import hasten.bus", "hasten.worker.domain is not allowed to import nats"),
        ("shared/hasten/newcomer.py", '"""No place in the layers."""', "hasten.newcomer"),
    ],
)
def test_a_violation_is_noticed(copy: Path, file: str, line: str, said: str) -> None:
    with (copy / file).open("a") as opened:
        opened.write(f"\n{line}\n")
    code, report = lint(copy)
    assert code == 1
    assert said in report
