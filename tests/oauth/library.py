"""A host of client metadata documents, in this process; it notes what it is asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from oauth.browser import CALLBACK


class Page(NamedTuple):
    """What a path answers. `hold` answers nothing until the library closes."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = {}
    hold: bool = False


class Library:
    """The documents by path, and the requests so far as (path, Host)."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[tuple[str, str]] = []
        self.closing = threading.Event()
        self.port = server.server_address[1]
        self.url = f"{scheme}://localhost:{self.port}"

    def add(self, path: str, **metadata: Any) -> str:
        """Publish a good document, changed as said; its URL."""
        url = self.url + path
        usual = {
            "client_id": url,
            "client_name": "A published program",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
        }
        self.put(path, json.dumps({**usual, **metadata}).encode())
        return url

    def put(self, path: str, body: bytes, status: int = 200, hold: bool = False, **headers: str) -> str:
        """Publish anything; its URL."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = Page(body, status, {"content-type": "application/json", **named}, hold)
        return self.url + path

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(asked == path for asked, _ in self.asked)


@contextmanager
def library(certificate: Path | None = None) -> Iterator[Library]:
    """A library inside the block: on https with a folder that has `both.pem`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            books.asked.append((self.path, self.headers["host"]))
            page = books.pages.get(self.path.partition("?")[0], Page(b"", 404))
            if page.hold:
                books.closing.wait()
                return
            self.send_response(page.status)
            for name, value in {"content-length": str(len(page.body)), **page.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                pass  # the client has seen enough

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "both.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    books = Library(server, "http" if certificate is None else "https")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield books
    finally:
        books.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
