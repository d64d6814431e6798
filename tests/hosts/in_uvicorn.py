"""`mcpkit run` with the app mounted in uvicorn: the same options, the same line when it is ready."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn

from mcpkit import App
from mcpkit.cli.main import main
from mcpkit.transports.address import Address, listening


def run(app: App, transport: str, *, host: str = "127.0.0.1", port: int = 8000, **options: Any) -> None:
    """`App.run`."""
    path = options.pop("path", "/mcp" if transport == "http" else "/sse")
    config = uvicorn.Config(app.asgi(path, transport=transport, **options), log_level="critical")
    address = Address(host, port)
    with listening(address) as bound:
        sys.stderr.write(f"mcpkit: {app.name} serving {address.url(bound, path, tls=False)}\n")
        sys.stderr.flush()
        uvicorn.Server(config).run([bound])


App.run = run  # type: ignore[method-assign, assignment]
sys.exit(main(sys.argv[1:]))
