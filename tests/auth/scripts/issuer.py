"""An issuer of tokens as a process of its own: keys at /keys, introspection at /introspect.

What it answers stands in files of a folder, `keys.json` and `tokens.json`; each question is a line on standard output.
Usage: issuer.py FOLDER PORT
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

FOLDER = Path(sys.argv[1])


def say(**facts: object) -> None:
    """A line for the test."""
    print(json.dumps(facts), flush=True)


class Issuer(BaseHTTPRequestHandler):
    """Its endpoints."""

    def do_GET(self) -> None:
        say(path=self.path)
        self._answer((FOLDER / "keys.json").read_text())

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        say(path=self.path, form=form, authorization=self.headers["Authorization"])
        known = json.loads((FOLDER / "tokens.json").read_text())
        self._answer(json.dumps(known.get(form["token"][0], {"active": False})))

    def _answer(self, text: str) -> None:
        body = text.encode()
        status = 200
        if text.startswith('"status '):
            status, body = int(text[8:11]), b"{}"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Issuer)
say(port=server.server_port)
server.serve_forever()
