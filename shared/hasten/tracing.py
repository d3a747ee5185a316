"""OpenTelemetry spans, whose context travels in NATS headers; where no exporter is configured nothing is imported.

Everything is as the OTEL_* variables say (endpoint, headers, sampler, batches, resource). An attribute holds a name, a
number or a code: no prompt, answer, document, vector or key.
"""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

from hasten.settings import SettingsError
from hasten.telemetry import logger

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

log = logger("tracing")
Scalar = str | bool | int | float
Attributes = Mapping[str, "Scalar | list[str] | None"]
TRACEPARENT = "traceparent"
TRACE_HEADERS = (TRACEPARENT, "tracestate")
"""The headers of W3C Trace Context, in HTTP and in NATS."""
FLUSH_S = 2.0
"""How long the end of a process waits for its last spans."""
MISSING = "traces are asked for (OTEL_*), and the extra is not installed: pip install 'hasten[otel]'"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Span:
    """A span that has begun; `end` ends it, and what comes after that is left out."""

    __slots__ = ("_span", "context")

    def __init__(self, span: "OtelSpan", context: "Context") -> None:
        self._span, self.context = span, context

    def set(self, attributes: Attributes) -> None:
        """Adds attributes; those that are None are left out."""
        self._span.set_attributes(_known(attributes))

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        """Adds something that happened now."""
        self._span.add_event(name, _known(attributes or {}))

    def link(self, other: "Context") -> None:
        """Names the span of another context, which this one has to do with although it is not beneath it."""
        from opentelemetry.trace import get_current_span

        self._span.add_link(get_current_span(other).get_span_context())

    def end(self, error: str | None = None) -> None:
        """Ends it, as failed with the code of an error if there is one."""
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class Tracing:
    """The spans of one process, whose services each have a name of their own. Make it with `from_environment`."""

    def __init__(self, processor: "SpanProcessor", environ: Mapping[str, str] = os.environ) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._processor, self._environ = processor, environ
        self._propagator = TraceContextTextMapPropagator()
        self._kinds = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
        self._tracers: dict[str, Tracer] = {}

    def begin(
        self,
        service: str,
        name: str,
        kind: str,
        attributes: Attributes | None = None,
        *,
        within: "Context | None" = None,
    ) -> Span:
        """A span (server, client or internal) beneath the current one, or beneath the one of `within`."""
        from opentelemetry import trace

        span = self._tracer(service).start_span(name, within, self._kinds[kind], _known(attributes or {}))
        return Span(span, trace.set_span_in_context(span, within))

    def serve(self, service: str, name: str, headers: Mapping[str, str], attributes: Attributes | None = None) -> Span:
        """The span of a request with these headers, beneath the caller's where they name a valid one.

        It is the current one of this task, and of those that this task begins, from here on.
        """
        from opentelemetry import context

        caller = self._propagator.extract({name: headers[name] for name in TRACE_HEADERS if name in headers})
        span = self.begin(service, name, "server", attributes, within=caller)
        context.attach(span.context)
        return span

    def current(self) -> "Context":
        """What spans and requests of this task are beneath."""
        from opentelemetry import context

        return context.get_current()

    def headers(self, within: "Context | None" = None) -> dict[str, str]:
        """The headers that carry a context on, the current one if none is given."""
        made: dict[str, str] = {}
        self._propagator.inject(made, within)
        return made

    def _tracer(self, service: str) -> "Tracer":
        if (made := self._tracers.get(service)) is None:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider

            named = {} if self._environ.get("OTEL_SERVICE_NAME") else {"service.name": f"hasten-{service}"}
            release = version("hasten")
            resource = Resource.create({"service.namespace": "hasten", "service.version": release} | named)
            provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            provider.add_span_processor(self._processor)
            made = self._tracers[service] = provider.get_tracer(f"hasten.{service}", release)
        return made

    def close(self) -> None:
        """Sends what is left, for at most FLUSH_S."""
        flushing = threading.Thread(target=self._processor.shutdown, daemon=True)
        flushing.start()
        flushing.join(FLUSH_S)


class _Telling:
    """An exporter that says in the log, once, that its collector takes no spans, and that it does again."""

    def __init__(self, exporter: "SpanExporter") -> None:
        self._exporter, self._failing = exporter, False

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        result = self._exporter.export(spans)
        failed = result.name != "SUCCESS"
        if failed != self._failing:
            self._failing = failed
            log.warning(
                "the collector takes %s", "no spans: they are dropped until it does" if failed else "spans again"
            )
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _known(attributes: Attributes) -> dict[str, Scalar | list[str]]:
    """What is known, without numbers that OTLP has no room for: one of them would cost the whole batch."""
    return {
        name: value
        for name, value in attributes.items()
        if value is not None and not (isinstance(value, int) and abs(value) >= 2**63)
    }


def from_environment(environ: Mapping[str, str] = os.environ) -> Tracing | None:
    """The tracing that the OTEL_* variables ask for, None where they ask for none.

    An endpoint asks for it, and so does `OTEL_TRACES_EXPORTER=otlp`; `OTEL_SDK_DISABLED=true` and `none` speak against
    it. Raises SettingsError for another exporter or protocol than OTLP over HTTP, and where the extra is missing.
    """
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or exporter == "none" or not (exporter or any(environ.get(name) for name in _ENDPOINTS)):
        return None
    if exporter not in ("", "otlp"):
        raise SettingsError(f"OTEL_TRACES_EXPORTER must be otlp or none, not {exporter}")
    protocol = next((given for name in _PROTOCOLS if (given := environ.get(name))), "http/protobuf")
    if protocol != "http/protobuf":
        raise SettingsError(f"OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, not {protocol}")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingsError(MISSING) from None
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it would say so again for every batch
    return Tracing(BatchSpanProcessor(cast("SpanExporter", _Telling(OTLPSpanExporter()))), environ)
