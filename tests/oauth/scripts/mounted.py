"""The example below a prefix of another application."""

import importlib.util
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount

EXAMPLE = Path(__file__).parents[3] / "examples" / "oauth.py"
spec = importlib.util.spec_from_file_location("example_oauth", EXAMPLE)
assert spec is not None
assert spec.loader is not None
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

mcp = example.app.asgi()
app = Starlette(routes=[Mount("/notes", mcp)], lifespan=mcp.lifespan)
