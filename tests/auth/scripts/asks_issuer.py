"""An app whose auth is made from what the environment says: the mode, and its options as JSON."""

from __future__ import annotations

import json
import os

from mcpkit import App, Principal
from mcpkit import auth as modes

options = json.loads(os.environ["AUTH_OPTIONS"])
app = App("asks", auth=getattr(modes, os.environ["AUTH"])(*options.pop("args", ()), **options))


@app.tool
def who(caller: Principal) -> str:
    """Who calls."""
    return f"{caller}: {' '.join(caller.scopes)}"


@app.tool(scopes=["write"])
def wipe() -> str:
    """Needs a scope."""
    return "wiped"
