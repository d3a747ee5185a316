"""Keeps what is secret in an address out of everything that httpx logs or says."""

import httpx


def split_url(text: str) -> tuple[httpx.URL, bytes, tuple[str, str] | None]:
    """The address without its query and user, then these; raises ValueError without quoting it."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise ValueError("not an address") from None
    auth = (url.username, url.password) if url.userinfo else None
    return url.copy_with(query=None, userinfo=b""), url.query, auth


class SecretTransport(httpx.AsyncBaseTransport):
    """Adds the query of the configured address on the last step, where nothing is logged any more."""

    def __init__(self, inner: httpx.AsyncBaseTransport, query: bytes) -> None:
        self._inner, self._query = inner, query

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request to the full address."""
        if self._query:
            request = httpx.Request(
                request.method,
                request.url.copy_with(query=self._query),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Closes the transport underneath."""
        await self._inner.aclose()
