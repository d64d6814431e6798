"""Issuers of tokens for the tests: keys and tokens made here, and endpoints in a process of their own."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from auth.authkit import SCRIPTS
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from hosts.process import Process
from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from kit import Server, serving

ISSUER = "https://id.example.com"
SECRET = "a secret that is long enough for HS256, surely"

RSA: RSAKey = RSAKey.generate_key(2048, {"kid": "rsa"})
EC: ECKey = ECKey.generate_key("P-256", {"kid": "ec"})
ED: OKPKey = OKPKey.generate_key("Ed25519", {"kid": "ed"})
OCT: OctKey = OctKey.import_key(SECRET)


def pem(key: RSAKey | ECKey | OKPKey) -> str:
    """The public half as text."""
    return key.as_pem(private=False).decode()


def signed(key: Key, algorithm: str, header: dict[str, Any], payload: Any) -> str:
    """A token with this header and payload, whatever they are."""
    head = {"alg": algorithm, "typ": "JWT", **header}
    head = {name: value for name, value in head.items() if value is not None}
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return jws.serialize_compact(head, data, key, registry=registry)


def forged(header: Any, payload: Any, sign: Callable[[bytes], bytes] = lambda data: b"") -> str:
    """A token that no library would make."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    data = f"{part(json.dumps(header).encode())}.{part(json.dumps(payload).encode())}"
    return f"{data}.{part(sign(data.encode()))}"


def by_rsa_key(data: bytes) -> bytes:
    """An RS256 signature."""
    return RSA.private_key.sign(data, padding.PKCS1v15(), hashes.SHA256())


def claims(audience: Any, **more: Any) -> dict[str, Any]:
    """The claims of a good token; None leaves one out."""
    usual = {"iss": ISSUER, "sub": "ann", "aud": audience, "exp": int(time.time()) + 300, "scope": "read"}
    return {name: value for name, value in {**usual, **more}.items() if value is not None}


class Issuer:
    """The process, which can be killed and started again at its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._looks = 0
        self.publish()
        self.introspects({})
        self.start()

    def publish(self, *keys: Key, **raw: Any) -> None:
        """What /keys answers with from now on."""
        document = {"keys": [key.as_dict(private=False) for key in keys], **raw}
        self._write("keys.json", document)

    def introspects(self, tokens: Any) -> None:
        """What /introspect says of each token from now on."""
        self._write("tokens.json", tokens)

    def fails(self, status: int = 500) -> None:
        """It answers with a status from now on."""
        self._write("keys.json", f"status {status}")

    def _write(self, name: str, value: Any) -> None:
        new = self.folder / (name + ".new")
        new.write_text(json.dumps(value))
        new.rename(self.folder / name)

    def start(self) -> None:
        """Start it, at the address that it had."""
        script = SCRIPTS / "issuer.py"
        self.process = Process([sys.executable, str(script), str(self.folder), str(self.port)])
        self.port = int(self.process.expect(r'"port": (\d+)')[1])

    def kill(self) -> None:
        """Let it be gone."""
        self.process.end()

    @property
    def questions(self) -> list[Any]:
        """What this process of it has been asked. It says so line by line: one more question shows where it is."""
        self._looks += 1
        httpx.get(self.url(f"look-{self._looks}"), trust_env=False)
        self.process.expect(f'/look-{self._looks}"')
        asked = [json.loads(line) for line in re.findall(r'{"path.*', self.process.output)]
        return [question for question in asked if "/look-" not in question["path"]]

    def url(self, path: str) -> str:
        """One of its endpoints."""
        return f"http://127.0.0.1:{self.port}/{path}"


@contextmanager
def issuing(folder: Path) -> Iterator[Issuer]:
    """An issuer inside the block."""
    issuer = Issuer(folder)
    try:
        yield issuer
    finally:
        issuer.kill()


@contextmanager
def guarded_by(mode: str, *args: Any, options: tuple[str, ...] = (), **arguments: Any) -> Iterator[Server]:
    """A server whose auth is this mode."""
    env = {"AUTH": mode, "AUTH_OPTIONS": json.dumps({"args": args, **arguments})}
    with serving(SCRIPTS / "asks_issuer.py", *options, **env) as server:
        yield server


def resource(server: Server) -> str:
    """The URL of its endpoint."""
    return f"http://127.0.0.1:{server.port}/mcp"
