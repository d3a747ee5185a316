"""HTTP requests as OpenTelemetry spans, beneath the caller's where its `traceparent` is a valid one."""

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hasten.gateway.app import Door
from hasten.tracing import TRACE_HEADERS, Tracing

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traced:
    """The application with a span around each request for the API; `label` names the route of a path."""

    def __init__(self, app: ASGIApp, tracing: Tracing, label: Callable[[str], str]) -> None:
        self._app, self._tracing, self._label = app, tracing, label

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket."""
        if scope["type"] not in ("http", "websocket") or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        method, route = scope.get("method", "GET"), self._label(scope["path"])
        method = method if method in _METHODS else "_OTHER"
        about = {"http.request.method": method, "http.route": route, "url.scheme": scope["scheme"]}
        span = self._tracing.serve("gateway", f"{method} {route}", _context_of(scope), about)
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                span.set({"http.response.status_code": status})
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except BaseException as error:
            span.end(type(error).__name__)
            raise
        span.end(str(status) if status >= 500 else None)


def traced(app: Door, tracing: Tracing | None) -> ASGIApp:
    """The application, with spans where there are traces."""
    return app if tracing is None else Traced(app, tracing, app.label)


def _context_of(scope: Scope) -> dict[str, str]:
    """The caller's context; two headers of a name say nothing certain."""
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        if (known := name.decode("latin-1")) in TRACE_HEADERS:
            found.setdefault(known, []).append(value.decode("latin-1"))
    return {name: values[0] for name, values in found.items() if len(values) == 1}
