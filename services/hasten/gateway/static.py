"""GET / and /page/…: the web page, held in memory, under a policy that lets it load and ask this gateway alone."""

import hashlib
from importlib.resources import files

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hasten.messages.failure import Failed

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Trusted types: where the browser knows them, not even our own script can turn a text into markup."""
INDEX = "index.html"


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the page as it is served."""

    body: bytes
    headers: dict[str, str]


def read() -> dict[str, File]:
    """The files of the page by name, from where the package is installed."""
    found = {}
    for path in files("hasten.gateway").joinpath("page").iterdir():
        if (kind := _TYPES.get(path.name.rpartition(".")[2])) is not None:
            body = path.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[path.name] = File(body=body, headers={**HEADERS, "Content-Type": kind, "ETag": etag})
    return found


class Static:
    """Both paths. A browser that has a file asks whether it is still the same, and is told so in a few bytes."""

    def __init__(self) -> None:
        self._files = read()

    async def index(self, request: Request) -> Response:
        """The page itself."""
        return self._answer(request, INDEX)

    async def file(self, request: Request) -> Response:
        """What it is made of; raises Failed(not_found)."""
        return self._answer(request, request.path_params["name"])

    def _answer(self, request: Request, name: str) -> Response:
        if (file := self._files.get(name)) is None:
            raise Failed("not_found", "the page has no file of this name")
        if _matches(request.headers.get("if-none-match", ""), file.headers["ETag"]):
            return Response(status_code=304, headers={**file.headers})
        return Response(file.body, headers=file.headers)


def _matches(header: str, etag: str) -> bool:
    """`If-None-Match` names this ETag, weakly or not, or anything at all."""
    return header.strip() == "*" or etag in (one.strip().removeprefix("W/") for one in header.split(","))
