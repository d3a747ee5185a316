"""A receiver of OTLP over HTTP, as far as spans go: it decodes what exporters send and keeps it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Received:
    """A span and the service that it is of."""

    def __init__(self, service: str, span: Span) -> None:
        self.service, self.span, self.name = service, span, span.name
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()

    @property
    def attributes(self) -> dict[str, object]:
        """Its attributes, whatever their type."""
        return {one.key: getattr(one.value, one.value.WhichOneof("value") or "") for one in self.span.attributes}


class Receiver:
    """Listens on a free port while it is a context."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.paths: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/x-protobuf"
                receiver.paths.add(self.path)
                receiver.spans += _spans(ExportTraceServiceRequest.FromString(raw))
                body = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The endpoint to give to exporters."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def of(self, trace: str) -> list[Received]:
        """The spans of a trace so far."""
        return [one for one in list(self.spans) if one.trace == trace]

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _spans(request: ExportTraceServiceRequest) -> Iterator[Received]:
    for resource in request.resource_spans:
        about = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(about.get("service.name", ""), span)
