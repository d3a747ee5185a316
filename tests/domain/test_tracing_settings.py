"""When there are traces and where they go: as the OTEL_* variables say, and nothing is imported where they say none."""

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hasten.settings import SettingsError
from hasten.tracing import MISSING, Span, Tracing, from_environment

Recorded = tuple[Tracing, InMemorySpanExporter]
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "mine"},
        {"OTEL_TRACES_EXPORTER": "none", **ENDPOINT},
        {"OTEL_SDK_DISABLED": "TRUE", **ENDPOINT},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9"},
    ],
)
def test_there_are_none(environ: dict[str, str]) -> None:
    assert from_environment(environ) is None


@pytest.mark.parametrize(
    "environ",
    [
        ENDPOINT,
        {"OTEL_TRACES_EXPORTER": "otlp"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"},
        {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
    ],
)
def test_there_are_some(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    made = from_environment(environ)
    assert made is not None
    made.close()


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "zipkin"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
        (
            {
                **ENDPOINT,
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            },
            "http/json",
        ),
    ],
)
def test_what_cannot_be_done_is_said(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        from_environment(environ)


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingsError) as raised:
        from_environment(ENDPOINT)
    assert str(raised.value) == MISSING


def test_nothing_is_imported_where_nothing_is_asked_for() -> None:
    code = (
        "import sys, hasten.cli, hasten.system, hasten.tracing as t\n"
        "assert t.from_environment({}) is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.fixture
def recorded() -> Recorded:
    exporter = InMemorySpanExporter()
    return Tracing(SimpleSpanProcessor(exporter), {}), exporter


def _begun(tracing: Tracing) -> Span:
    return tracing.begin("worker", "chat m", "internal", {"left out": None, "kept": 1, "too large": 2**63})


def test_an_attribute_that_otlp_has_no_room_for_is_left_out(recorded: Recorded) -> None:
    tracing, exporter = recorded
    span = _begun(tracing)
    span.set({"huge": -(2**70), "small": -1})
    span.end()
    (ended,) = exporter.get_finished_spans()
    assert dict(ended.attributes or {}) == {"kept": 1, "small": -1}


def test_the_sampler_is_that_of_the_environment(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracing, exporter = recorded
    span = _begun(tracing)
    flags = tracing.headers(span.context)["traceparent"].rpartition("-")[2]
    assert int(flags, 16) & 1 == 0, "not sampled"
    span.end()
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(("environ", "name"), [({}, "hasten-worker"), ({"OTEL_SERVICE_NAME": "mine"}, "mine")])
def test_the_name_of_a_service_may_be_given(
    environ: dict[str, str], name: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    tracing, exporter = recorded
    tracing = Tracing(tracing._processor, environ)
    _begun(tracing).end()
    (ended,) = exporter.get_finished_spans()
    assert ended.resource.attributes["service.name"] == name
