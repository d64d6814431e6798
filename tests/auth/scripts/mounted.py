"""An app with auth, mounted in other applications under a prefix."""

from __future__ import annotations

import os

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import App
from mcpkit.auth import ClientCredentialsAuth, JWTAuth

app = App("mounted", auth=ClientCredentialsAuth({"my-client": "secret"}))

starlette_app = Starlette(routes=[Mount("/notes", app.asgi())])
if "JWKS_URL" in os.environ:
    asks_issuer = App("asks", auth=JWTAuth(jwks_url=os.environ["JWKS_URL"])).asgi()

fastapi_app = FastAPI()
fastapi_app.mount("/notes", app.asgi())
