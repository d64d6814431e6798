"""`mcpkit run` with the app mounted in uvicorn: the same options, the same lines when it is ready, and 0 at its end."""

from __future__ import annotations

import signal
import socket
import sys
from typing import Any

import uvicorn

from mcpkit import App
from mcpkit.cli.main import main
from mcpkit.transports.address import Address, listening
from mcpkit.transports.options import HttpOptions


class Server(uvicorn.Server):
    """Says that it is ready when it is."""

    ready = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        sys.stderr.write(self.ready)
        sys.stderr.flush()


def run(
    app: App,
    transport: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    certfile: str | None = None,
    keyfile: str | None = None,
    **options: Any,
) -> None:
    """`App.run`."""
    options = {"path": "/mcp" if transport == "http" else "/sse", "transport": transport, **options}
    given = HttpOptions.of(**options)
    config = uvicorn.Config(
        app.asgi(**options),
        log_level="critical",
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
        proxy_headers=False,  # whom to believe is for the app to say
        timeout_graceful_shutdown=given.grace + 0.5,  # type: ignore[arg-type]  # for clients that do not read
    )
    server, address = Server(config), Address(host, port)
    with listening(address) as bound:
        paths = [path or "/" for path, kind in given.endpoints if kind != "message"]
        urls = [address.url(bound, path, tls=certfile is not None) for path in paths]
        server.ready = "".join(f"mcpkit: {app.name} serving {url}\n" for url in urls)
        server.run([bound])


App.run = run  # type: ignore[method-assign, assignment]
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit(0))  # uvicorn raises it again once it has ended
sys.exit(main(sys.argv[1:]))
