"""Servers over HTTP for the tests of the command line: scripts, requests, certificates."""

from __future__ import annotations

import contextlib
import datetime
import io
import ipaddress
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support import SECONDS, STATELESS, request

from mcpkit.cli.main import main

SERVER = """\
from mcpkit import App, ToolError

app = App("My shop")


@app.tool
def version() -> str:
    return "one"


@app.tool
def refuse(secret: str) -> str:
    raise ToolError("No.")
"""
RUN = [sys.executable, "-m", "mcpkit", "run"]
HTTP = ["--transport", "http", "--port", "0"]


def cli(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`mcpkit WORDS`."""
    return subprocess.run(
        [sys.executable, "-m", "mcpkit", *words],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def here(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `mcpkit WORDS`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def failure(*words: str) -> str:
    """The one line in which `mcpkit WORDS` says why it fails with 1."""
    code, out, err = here(*words)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"mcpkit: \S.*\n", err), err
    return err


def posted(
    method: str, params: dict[str, Any] | None = None, *, id: Any = 1, **headers: str
) -> dict[str, Any]:
    """What `httpx` needs to post a stateless request."""
    own = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": STATELESS,
        "mcp-method": method,
    }
    if params and "name" in params:
        own["mcp-name"] = params["name"]
    return {"json": request(id, method, params, revision=STATELESS), "headers": {**own, **headers}}


def call(
    url: str,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    client: httpx.Client | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> str:
    """The text of a tool's result, over a connection of its own unless a client is given."""
    params = {"name": tool, "arguments": arguments or {}}
    with httpx.Client(timeout=SECONDS, trust_env=False) if client is None else client as own:
        response = own.post(url, **posted("tools/call", params, **more, **(headers or {})))
    assert response.status_code == 200, response.text
    return response.json()["result"]["content"][0]["text"]


# -- Certificates ----------------------------------------------------------------------------


def make_certificate(folder: Path) -> Path:
    """A self-signed certificate for this machine in `cert.pem`, its key in `key.pem`, both in `both.pem`; the key
    under a password in `locked.pem`, and another one in `other.pem`. Returns the folder.
    """
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    files = {
        "cert.pem": certificate,
        "key.pem": _pem(key),
        "both.pem": _pem(key) + certificate,
        "locked.pem": _pem(key, b"password"),
        "other.pem": _pem(other),
    }
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return folder


def _pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    kind = (
        serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kind)
