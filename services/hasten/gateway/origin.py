"""Lets pages of other origins ask from a browser, which asks first whether it may: those that an operator names."""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

REMEMBERED_S = 600
"""How long a browser need not ask again."""


def open_to(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The application for these origins as well. A key is sent as a header, never by cookie, so none are allowed."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["*"],
        max_age=REMEMBERED_S,
    )
