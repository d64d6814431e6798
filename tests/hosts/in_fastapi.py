"""The app mounted in FastAPI, under a prefix and behind a middleware that wraps both channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from hosts.apps import GRACE, app

fastapi = FastAPI()


@fastapi.middleware("http")
async def tagging(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """A middleware as the framework's documentation shows it."""
    response = await call_next(request)
    response.headers["x-host"] = "fastapi"
    return response


@fastapi.get("/")
async def index() -> str:
    """A page of the host's own."""
    return "a page of the host"


fastapi.mount("/api", app.asgi(grace=GRACE, with_sse=True))
