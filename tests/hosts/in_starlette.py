"""The app mounted in Starlette, under a prefix."""

from __future__ import annotations

from hosts.apps import GRACE, app
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

mounted = app.asgi(grace=GRACE, with_sse=True)


async def index(request: Request) -> PlainTextResponse:
    """A page of the host's own."""
    return PlainTextResponse("a page of the host")


ROUTES = [Route("/", index), Mount("/api", mounted)]

silent = Starlette(routes=ROUTES)
"""Starlette does not forward lifespan events to what is mounted in it."""

lively = Starlette(routes=ROUTES, lifespan=mounted.lifespan)
"""The same, with the app's lifespan as its own."""
