"""aiperf, the benchmark client, against a running hasten: the endpoints that it loads, and what it measured."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tried import Tried, same

REQUESTS = 12
TOKENIZER = Path(__file__).parents[2] / ".hasten" / "models" / "smollm2" / "tokenizer.json"


def tokenizer(folder: Path) -> str:
    """Our tokenizer as a folder of transformers, which takes none without a class."""
    folder.mkdir()
    shutil.copy(TOKENIZER, folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    return str(folder)


def profile(*options: str, model: str) -> dict[str, Any]:
    """Its report on a short run."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = tokenizer(Path(folder) / "tokenizer")
        command = [str(Path(sys.executable).with_name("aiperf")), "profile", "--model", model]
        command += [
            "--url",
            os.environ["HASTEN_URL"],
            "--api-key",
            os.environ["HASTEN_API_KEY"],
            "--tokenizer",
            tokens,
        ]
        command += ["--request-count", str(REQUESTS), "--concurrency", "3", "--isl", "40", "--artifact-dir", folder]
        command += ["--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reports = list(Path(folder).rglob("profile_export_aiperf.json"))
        assert reports, (done.stdout + done.stderr)[-2000:]
        report: dict[str, Any] = json.loads(reports[0].read_text())
        return report


def loads(*options: str, model: str, figure: str) -> str:
    report = profile(*options, model=model)
    same((report["request_count"]["avg"], report.get("error_summary") or []), (REQUESTS, []))
    return f"{figure} p50 {report[figure]['p50']:.1f} {report[figure]['unit']}"


def main() -> None:
    real, scripted = os.environ["HASTEN_REAL_MODEL"], os.environ["HASTEN_MODEL"]
    chat, streamed = ("--endpoint-type", "chat"), ("--endpoint-type", "chat", "--streaming", "--osl", "8")
    tried = Tried(f"aiperf {version('aiperf')}")
    tried.case("chat, streamed", lambda: loads(*streamed, model=real, figure="time_to_first_token"))
    tried.case("chat, whole", lambda: loads(*chat, model=scripted, figure="request_latency"))
    tried.case(
        "responses, streamed",
        lambda: loads("--endpoint-type", "responses", "--streaming", model=scripted, figure="time_to_first_token"),
    )
    tried.case("embeddings", lambda: loads("--endpoint-type", "embeddings", model="auto", figure="request_latency"))
    tried.end()


if __name__ == "__main__":
    main()
