"""The official client, unmodified, against a whole hasten in processes of its own; the others: `make test-clients`."""

import subprocess
import sys
from pathlib import Path

import pytest

from hasten.embedder import export
from hasten.weights import prepare

RUN = Path(__file__).parent / "run.py"
STATE = Path(__file__).parents[2] / ".hasten"


@pytest.mark.timeout(300)
def test_everything_that_openai_python_is_tried_with_works() -> None:
    prepare(STATE, print)
    export.prepare(STATE, print)
    done = subprocess.run([sys.executable, str(RUN)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nopenai-python" in done.stdout
