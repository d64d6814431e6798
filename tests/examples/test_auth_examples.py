"""The examples of auth, served over HTTP as their heads say, and used as whom they know."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from auth.issuing import claims, issuing, signed
from hosts.process import MCPKIT, started
from joserfc.jwk import OctKey, RSAKey

EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def serving(script: str, **env: str) -> Iterator[str]:
    """The URL of its endpoint."""
    with started([*MCPKIT, str(EXAMPLES / script)], **env) as process:
        yield process.expect(r"serving (http\S+)")[1]


def run(command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["sh", "-c", command.replace("mcpkit ", f"{sys.executable} -m mcpkit ", 1)],
        cwd=EXAMPLES.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def from_head(script: str, first: str, url: str) -> str:
    """What the head of the example says after `first`, for the server at `url`."""
    match = re.search(rf"^{first}: +(.*)$", (EXAMPLES / script).read_text(encoding="utf-8"), re.MULTILINE)
    assert match
    return match[1].replace("http://127.0.0.1:8000", url.removesuffix("/mcp"))


def call(url: str, tool: str, token: str) -> tuple[int, str, str]:
    return run(f'mcpkit call {url} {tool} --header Authorization="Bearer {token}"')


def test_bearer() -> None:
    """Ann writes, Bob reads, and nobody else does anything."""
    with serving("bearer.py") as url:
        assert run(from_head("bearer.py", "Write", url)) == (0, "There are 2 notes.\n", "")
        assert run(from_head("bearer.py", "Read", url)) == (0, "Welcome.\nAnn: milk\n", "")
        code, _, errors = call(url, "write text=x", "bobs-token")
        assert (code, errors) == (1, "mcpkit: there is no tool 'write'; there are: read\n")
        code, _, errors = run(f"mcpkit call {url} read")
        assert code == 1
        assert "needs a token" in errors


def test_jwt_with_a_secret() -> None:
    """Signed by an issuer that shares the secret."""
    secret = OctKey.import_key("a secret of the issuer, which it shares")
    with serving(
        "jwt.py", JWT_SECRET="a secret of the issuer, which it shares", JWT_ISSUER="https://id.example.com"
    ) as url:
        token = signed(secret, "HS256", {}, claims(url, scope="read admin"))
        assert call(url, "whoami", token) == (0, "ann may: read, admin\n", "")
        assert call(url, "restart", token) == (0, "ann has restarted it.\n", "")
        assert call(url, "whoami", token + "x")[0] == 1


def test_jwt_with_published_keys(tmp_path: Path) -> None:
    """Signed with a key that the issuer publishes."""
    key = RSAKey.generate_key(2048, {"kid": "1"})
    with issuing(tmp_path) as issuer, serving("jwt.py", JWKS_URL=issuer.url("keys")) as url:
        issuer.publish(key)
        token = signed(key, "RS256", {"kid": "1"}, claims(url, scope=None))
        assert call(url, "whoami", token) == (0, "ann may: nothing in particular\n", "")


def test_introspection(tmp_path: Path) -> None:
    """The issuer is asked."""
    with (
        issuing(tmp_path) as issuer,
        serving("introspection.py", INTROSPECTION_URL=issuer.url("introspect")) as url,
    ):
        good = {"active": True, "sub": "ann", "client_id": "cli", "scope": "notes"}
        issuer.introspects({"good": good, "narrow": {**good, "scope": "x"}})
        assert call(url, "whoami", "good") == (0, "ann, with cli\n", "")
        for token, said in (("bad", "not valid"), ("narrow", "needed: notes")):
            code, _, errors = call(url, "whoami", token)
            assert code == 1
            assert said in errors


def test_client_credentials() -> None:
    """The command with curl gets a token, and the token does what its client may."""
    with serving("client_credentials.py") as url:
        code, answer, _ = run(from_head("client_credentials.py", "Token", url))
        assert code == 0
        granted = json.loads(answer)
        assert granted["scope"] == "read"
        assert call(url, "report", granted["access_token"]) == (0, "All is green.\n", "")
        assert call(url, "publish version=1", granted["access_token"])[0] == 1
        form = {"grant_type": "client_credentials", "client_id": "release", "client_secret": "another-secret"}
        token = httpx.post(url.replace("/mcp", "/token"), data=form, trust_env=False).json()["access_token"]
        assert call(url, "publish version=1", token) == (0, "1 is published by release.\n", "")


@pytest.mark.parametrize("script", ["bearer.py", "jwt.py", "introspection.py", "client_credentials.py"])
def test_its_head_says_how_to_serve_it(script: str) -> None:
    """As the tests do, with the default port."""
    head = (EXAMPLES / script).read_text(encoding="utf-8").partition('"""\n')[0]
    assert f"mcpkit run examples/{script} --transport http" in head
