"""The parties of a flow over raw HTTP: a browser with cookies that reads forms, and a client with its PKCE pair."""

from __future__ import annotations

import base64
import hashlib
import secrets
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx
from support import SECONDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "oauth.py"
PASSWORD = "correct horse"
CALLBACK = "http://127.0.0.1:53682/callback"


class Form(HTMLParser):
    """The one form of a page: where it goes, what its fields hold; and what the page says."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.buttons: list[tuple[str, str]] = []
        self.labels: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._style = False
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        self._style = tag == "style"
        if tag == "form":
            assert not self.action, "two forms"
            self.action = given["action"] or ""
        elif tag == "input":
            self.fields[given["name"] or ""] = given.get("value") or ""
        elif tag == "button":
            self.buttons.append((given["name"] or "", given["value"] or ""))
        elif tag == "label":
            self.labels.append(given["for"] or "")

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.words.append(data)


class Back(NamedTuple):
    """Where a browser was sent back to, without and with its parameters."""

    uri: str
    parameters: dict[str, str]

    @classmethod
    def of(cls, response: httpx.Response) -> Back:
        assert response.status_code == 303, (response.status_code, response.text)
        uri, _, query = response.headers["location"].partition("?")
        parsed = parse_qs(query, keep_blank_values=True, strict_parsing=True)
        assert all(len(values) == 1 for values in parsed.values()), query
        return cls(uri, {name: values[0] for name, values in parsed.items()})


class Visitor:
    """A browser: it keeps cookies, follows nothing by itself, and sends forms as they are."""

    def __init__(self) -> None:
        self.http = httpx.Client(timeout=SECONDS, trust_env=False)

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def open(self, url: str) -> httpx.Response:
        """Go to a URL."""
        return self.http.get(url)

    def send(self, page: httpx.Response, **fields: str) -> httpx.Response:
        """Fill in the form of a page and send it, as the first button does unless `decision` says otherwise."""
        form = Form(page.text)
        values = {**form.fields, "decision": "allow", **fields}
        return self.http.post(urljoin(str(page.url), form.action), data=values)

    def allow(self, url: str, username: str = "editor", password: str = PASSWORD) -> httpx.Response:
        """Sign in at a URL, and allow what is asked."""
        page = self.open(url)
        assert page.status_code == 200, page.text
        return self.send(page, username=username, password=password)


class Program:
    """A client that has registered, and one flow of it."""

    def __init__(self, origin: str, client_id: str, **request: str | None) -> None:
        self.origin = origin
        self.client_id = client_id
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(16)
        self.request: dict[str, str | None] = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "state": self.state,
            "code_challenge": challenge(self.verifier),
            "code_challenge_method": "S256",
            "resource": f"{origin}/mcp",
            "scope": "notes:read notes:write",
            **request,
        }

    def url(self, **changed: str | None) -> str:
        """Where it sends the browser. None leaves a parameter out."""
        given = {name: value for name, value in {**self.request, **changed}.items() if value is not None}
        return f"{self.origin}/authorize?{urlencode(given)}"

    def redeem(self, code: str, **changed: str | None) -> httpx.Response:
        """Ask for tokens for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": self.request["redirect_uri"],
            "code_verifier": self.verifier,
            "resource": self.request["resource"],
        }
        return self.token({**form, **changed})

    def refresh(self, token: str, **changed: str | None) -> httpx.Response:
        """Ask for new tokens."""
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        return self.token({**form, **changed})

    def token(self, form: dict[str, str | None], **more: Any) -> httpx.Response:
        """Post to the token endpoint."""
        return post(f"{self.origin}/token", {k: v for k, v in form.items() if v is not None}, **more)

    def code(self, username: str = "editor") -> str:
        """A code that a user has allowed."""
        with Visitor() as visitor:
            back = Back.of(visitor.allow(self.url(), username))
        assert back.uri == self.request["redirect_uri"]
        assert back.parameters["state"] == self.state
        assert back.parameters["iss"] == self.origin
        return back.parameters["code"]

    def tokens(self, username: str = "editor") -> dict[str, Any]:
        """Tokens that a user has allowed."""
        answer = self.redeem(self.code(username))
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.json()


def post(url: str, form: dict[str, str], **more: Any) -> httpx.Response:
    """Post a form, without cookies."""
    return httpx.post(url, data=form, timeout=SECONDS, trust_env=False, **more)


def challenge(verifier: str) -> str:
    """The S256 challenge for a verifier (RFC 7636 section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def register(origin: str, **metadata: Any) -> httpx.Response:
    """Register a client, a public one unless the metadata says otherwise."""
    usual = {
        "client_name": "A program",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    return httpx.post(f"{origin}/register", json={**usual, **metadata}, timeout=SECONDS, trust_env=False)


def program(origin: str, **request: str | None) -> Program:
    """A client that has just registered."""
    return Program(origin, register(origin).json()["client_id"], **request)


def origin_of(url: str) -> str:
    """The origin of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def call(url: str, token: str | None, tool: str = "whoami", **arguments: Any) -> httpx.Response:
    """Call a tool in the stateless era."""
    return ask(url, token, "tools/call", {"mcp-name": tool}, name=tool, arguments=arguments)


def ask(
    url: str, token: str | None, method: str, headers: dict[str, str] | None = None, **params: Any
) -> httpx.Response:
    """A request of the stateless era, and all of its answer."""
    prefix = "io.modelcontextprotocol/"
    meta = {prefix + "protocolVersion": "2026-07-28", prefix + "clientCapabilities": {}}
    head = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **(headers or {}),
        **({} if token is None else {"authorization": f"Bearer {token}"}),
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return httpx.post(url, json=message, headers=head, timeout=SECONDS, trust_env=False)
