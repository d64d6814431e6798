"""An app with auth, mounted in other applications under a prefix."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import App
from mcpkit.auth import ClientCredentialsAuth

app = App("mounted", auth=ClientCredentialsAuth({"my-client": "secret"}))

starlette_app = Starlette(routes=[Mount("/notes", app.asgi())])
fastapi_app = FastAPI()
fastapi_app.mount("/notes", app.asgi())
