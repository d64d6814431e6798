"""Names, prefixes and TLS: what the user typed is what counts everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cli.web import make_certificate
from hosts.process import serving_http
from oauth.browser import CALLBACK, EXAMPLE, Form, Program, origin_of
from support import SECONDS

from mcpkit.auth import AuthorizationServer


def test_over_tls_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    """RFC 6265bis section 4.1.3: Secure, and with the prefix that no other host can use."""
    folder = make_certificate(tmp_path)
    with serving_http(EXAMPLE, "--certfile", str(folder / "both.pem")) as (_, url):
        origin = origin_of(url)
        with httpx.Client(verify=False, timeout=SECONDS, trust_env=False) as http:
            sent = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
            flow = Program(origin, http.post(f"{origin}/register", json=sent).json()["client_id"])
            page = http.get(flow.url())
            pattern = r"__Host-mcpkit-form=[\w-]{43}; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600; Secure"
            assert re.fullmatch(pattern, page.headers["set-cookie"])
            fields = {**Form(page.text).fields, "username": "editor", "password": "correct horse"}
            back = http.post(f"{origin}/authorize", data=fields)
            assert back.status_code == 303
            assert f"iss={origin.replace(':', '%3A').replace('/', '%2F')}" in back.headers["location"]


def test_behind_a_proxy_everything_has_its_name_and_its_prefix() -> None:
    """DESIGN: the issuer is where the request found the server, as a trusted proxy says."""
    told = {
        "x-forwarded-proto": "https",
        "x-forwarded-host": "mcp.example.com",
        "x-forwarded-prefix": "/notes",
        "x-forwarded-for": "192.0.2.7",
    }
    options = ("--trusted-proxy", "127.0.0.0/8", "--allow-host", "mcp.example.com")
    with serving_http(EXAMPLE, *options) as (_, url), httpx.Client(headers=told, trust_env=False) as http:
        origin, seen = origin_of(url), "https://mcp.example.com/notes"
        for path in (
            "oauth-authorization-server",
            "oauth-authorization-server/notes",
            "openid-configuration",
        ):
            metadata = http.get(f"{origin}/.well-known/{path}").json()
            assert metadata["issuer"] == seen
            assert metadata["token_endpoint"] == f"{seen}/token"
        resource = http.get(f"{origin}/.well-known/oauth-protected-resource").json()
        assert resource["authorization_servers"] == [seen]
        sent = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        client = http.post(f"{origin}/register", json=sent).json()["client_id"]
        flow = Program(origin, client, resource=f"{seen}/mcp")
        page = http.get(flow.url())
        assert Form(page.text).action == "/notes/authorize"
        assert page.headers["set-cookie"].startswith("__Host-mcpkit-form=")
        assert "access to mcp.example.com/notes/mcp" in Form(page.text).text
        # What is not said by the proxy is not believed: another name is not answered.
        assert httpx.get(flow.url(), headers={"host": "evil.example"}, trust_env=False).status_code == 403


def test_the_verbs_of_pages_and_metadata_include_head(origin: str) -> None:
    """RFC 9110 section 9.3.2."""
    for path in ("/authorize", "/.well-known/oauth-authorization-server"):
        answer = httpx.head(origin + path, trust_env=False)
        assert answer.status_code == (400 if path == "/authorize" else 200)
        assert answer.content == b""


def test_a_metadata_document_names_the_issuer_that_was_given(tmp_path: Path) -> None:
    """RFC 8414 section 3.3: `issuer=` is taken as it is, and the endpoints are below it."""
    script = tmp_path / "named.py"
    script.write_text(
        "from mcpkit import App\n"
        "from mcpkit.auth import AuthorizationServer\n"
        "app = App('named', auth=AuthorizationServer(\n"
        "    lambda name, password: name, issuer='https://id.example.com/', resource='https://mcp.example.com/mcp'))\n"
    )
    with serving_http(script) as (_, url):
        origin = origin_of(url)
        metadata = httpx.get(f"{origin}/.well-known/oauth-authorization-server", trust_env=False).json()
        assert metadata["issuer"] == "https://id.example.com/"
        assert metadata["authorization_endpoint"] == "https://id.example.com/authorize"
        resource = httpx.get(f"{origin}/.well-known/oauth-protected-resource", trust_env=False).json()
        assert resource["authorization_servers"] == ["https://id.example.com/"]
        assert urlsplit(resource["resource"]).netloc == "mcp.example.com"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"users": "editor"}, TypeError),
        ({"access_ttl": 0}, ValueError),
        ({"refresh_ttl": -1}, ValueError),
        ({"issuer": "mcp.example.com"}, ValueError),
        ({"scopes": {"two words": "x"}}, ValueError),
        ({"scopes": {'"': "x"}}, ValueError),
        ({"required_scopes": "notes"}, TypeError),
        ({"nonsense": 1}, TypeError),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_at_once(
    options: dict[str, object], error: type[Exception]
) -> None:
    """When the script is loaded, not when the first user comes."""
    with pytest.raises(error):
        AuthorizationServer(**{"users": lambda name, password: name, **options})  # type: ignore[arg-type]
