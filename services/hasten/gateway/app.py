"""The ASGI application: which path is answered by what, how errors look, and how many requests are let in."""

import contextlib
from collections.abc import Iterable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hasten.gateway.chat import REQUEST_ID, Chat
from hasten.gateway.embeddings import Embeddings
from hasten.gateway.errors import error_headers, error_object, status_of
from hasten.gateway.health import Health
from hasten.gateway.models import Catalogue
from hasten.gateway.rates import HEADERS as RATES
from hasten.gateway.responses import Responses
from hasten.limit import Limit
from hasten.messages.failure import Failed, Failure
from hasten.telemetry import counter, gauge, logger, where

log = logger("gateway")
_responses = counter("gateway_responses_total", "HTTP responses, by path and status", "path", "status")
_active = gauge("gateway_requests_active", "HTTP requests being answered")
_NOWHERE = "there is nothing at this path: chat/completions, responses, stream, embeddings and models are under /v1/"
_EDGE_CODES = {404: ("not_found", _NOWHERE), 405: ("method_not_allowed", "this path does not take this method")}


def error_response(failure: Failure, scope: Scope) -> Response:
    """A failure as a response, with the id of the request if it has one."""
    identity = {"x-hasten-request-id": scope[REQUEST_ID]} if REQUEST_ID in scope else {}
    return Response(
        msgspec.json.encode(error_object(failure)),
        status_of(failure),
        headers=error_headers(failure) | identity,
        media_type="application/json",
    )


async def _on_failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, Failed)
    return error_response(error.failure, request.scope)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, detail = _EDGE_CODES.get(error.status_code, ("bad_request", "the request cannot be answered"))
    allowed = (error.headers or {}).get("Allow")
    detail += f", but {allowed}" if allowed else ""
    response = error_response(Failure(code=code, detail=detail), request.scope)
    response.headers.update(error.headers or {})
    return response


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("a request failed: %s", where(error))
    failure = Failure(code="internal", detail=f"the gateway failed ({type(error).__name__})")
    return error_response(failure, request.scope)


def build_app(
    chat: Chat,
    embeddings: Embeddings,
    catalogue: Catalogue,
    health: Health,
    *,
    limit: int,
    more: Iterable[BaseRoute] = (),
) -> "Door":
    """The application with `more` routes, of which at most `limit` requests are let in at once."""
    routes: list[BaseRoute] = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/responses", Responses(chat), methods=["POST"]),
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/models", catalogue.every),
        Route("/v1/models/{name:path}", catalogue.one),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        Route("/metrics", health.metrics),
        *more,
    ]
    handlers = {Failed: _on_failed, HTTPException: _on_http, Exception: _on_bug}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Door(app, limit, frozenset(map(_label, routes)))


def _label(route: BaseRoute) -> str:
    """The path that requests of a route are counted by."""
    assert isinstance(route, Route | WebSocketRoute)
    return route.path.partition("{")[0].rstrip("/") or "/"


def plain_path(path: str) -> str:
    """The path without the slashes that clients add where they join it to an address that ends with one."""
    if "//" in path or path.endswith("/"):
        return "/" + "/".join(part for part in path.split("/") if part)
    return path


class Door:
    """Counts what comes and goes, and says at once that it is full rather than let requests wait."""

    def __init__(self, app: ASGIApp, limit: int, paths: frozenset[str]) -> None:
        self._app, self._limit, self._paths = app, Limit(limit), paths
        self.active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        if (plain := plain_path(scope["path"])) != scope["path"]:
            scope = {**scope, "path": plain}
        path = self.label(plain)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                _responses.labels(path, message["status"]).inc()
                rates = [(name.encode(), value.encode()) for name, value in scope.get(RATES, {}).items()]
                message = {**message, "headers": [*message.get("headers", ()), *rates]}
            await send(message)

        limited = path.startswith("/v1/")
        if limited and self._limit.full():
            full = Failed("overloaded", "the gateway is full", retry_after_ms=self._limit.retry_after_ms()).failure
            await error_response(full, scope)(scope, receive, counted)
            return
        self.active += 1
        _active.inc()
        try:
            async with self._limit.place() if limited else contextlib.nullcontext():
                await self._app(scope, receive, counted)
        finally:
            self.active -= 1
            _active.dec()

    def label(self, path: str) -> str:
        """The route of a path, as metrics and spans have it: any that we do not serve is `other`."""
        if path in self._paths:
            return path
        return next((known for known in ("/v1/models", "/v1/stream", "/page") if path.startswith(f"{known}/")), "other")
