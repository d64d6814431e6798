"""The `OAuthClientProvider` of the official Python SDK goes through the whole flow; HTTP stands in for the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from cli.web import make_certificate
from clients.test_python_sdk_http import on_asyncio, session
from hosts.process import MCPKIT, UVICORN, started
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from oauth.browser import CALLBACK, Visitor
from oauth.library import library
from support import HANDSHAKE, STATELESS

DOCUMENTS = Path(__file__).parent / "scripts" / "documents.py"


class Storage:
    """What the SDK keeps between runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Somebody with a browser."""

    def __init__(self, username: str) -> None:
        self.username = username
        self.asked: list[dict[str, list[str]]] = []
        self._location = ""

    async def go(self, url: str) -> None:
        """Sign in, and allow."""
        self.asked.append(parse_qs(urlsplit(url).query))
        with Visitor() as visitor:
            answer = visitor.allow(url, self.username)
        self._location = answer.headers["location"]

    async def come_back(self) -> AuthorizationCodeResult:
        """What the client's own page is called with."""
        assert self._location.startswith(CALLBACK)
        given = {name: values[0] for name, values in parse_qs(urlsplit(self._location).query).items()}
        return AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given["iss"])


def provider(url: str, person: Person, storage: Storage, **more: Any) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name="SDK",
        redirect_uris=[CALLBACK],
        **more.pop("metadata", {"token_endpoint_auth_method": "none"}),
    )
    return OAuthClientProvider(url, metadata, storage, person.go, person.come_back, **more)


@pytest.mark.parametrize(
    ("revision", "method"),
    [
        *((revision, "none") for revision in (*HANDSHAKE[1:], STATELESS)),
        *((STATELESS, method) for method in ("client_secret_post", "client_secret_basic", None)),
    ],
)
@on_asyncio
async def test_the_sdk_registers_signs_in_refreshes_and_steps_up(
    origin: str, revision: str, method: str | None
) -> None:
    """Discovery, registration with each way to authenticate, PKCE, `iss`, scopes, and the step up after a 403."""
    person, storage, url = Person("editor"), Storage(), f"{origin}/mcp"
    auth = provider(url, person, storage, metadata={"token_endpoint_auth_method": method})
    async with httpx2.AsyncClient(auth=auth) as http, session(url, revision, http=http) as client:
        assert await text(client, "whoami") == "editor: notes:read"
        assert storage.tokens is not None
        assert storage.tokens.scope == "notes:read"
        before = storage.tokens.access_token
        auth.context.token_expiry_time = 1.0  # long ago
        assert await text(client, "whoami") == "editor: notes:read"
        assert storage.tokens.access_token != before
        assert await text(client, "write", name="a", text="b") == "Kept a for editor."
    assert [asked["scope"] for asked in person.asked] == [["notes:read"], ["notes:read notes:write"]]


@on_asyncio
async def test_the_sdk_finds_a_server_below_a_prefix() -> None:
    """Mounted in another application, on asyncio: the issuer has the prefix, and its metadata is found below it."""
    person, storage = Person("editor"), Storage()
    scripts = str(Path(__file__).parent / "scripts")
    command = [*UVICORN, "asyncio", "--app-dir", scripts, "mounted:app"]
    with started(command) as process:
        url = process.expect(r"running on (http://\S+)")[1] + "/notes/mcp"
        auth = provider(url, person, storage)
        async with httpx2.AsyncClient(auth=auth) as http, session(url, STATELESS, http=http) as client:
            assert await text(client, "whoami") == "editor: notes:read"
        assert storage.client is not None
        assert storage.client.issuer == url.removesuffix("/mcp")
        assert "Traceback" not in process.output


async def text(client: ClientSession, tool: str, **arguments: str) -> str:
    """What a tool answers."""
    (block,) = (await client.call_tool(tool, arguments)).content
    return getattr(block, "text", "")


@on_asyncio
async def test_the_sdk_comes_with_a_document(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A Client ID Metadata Document, on https: no registration at all."""
    folder = make_certificate(tmp_path_factory.mktemp("tls"))
    person, storage = Person("anybody"), Storage()
    environment = {"SSL_CERT_FILE": str(folder / "cert.pem")}
    with library(folder) as books, started([*MCPKIT, str(DOCUMENTS)], **environment) as process:
        url = process.expect(r"serving (http\S+)")[1]
        document = books.add("/client.json", client_name="SDK")
        auth = provider(url, person, storage, client_metadata_url=document)
        async with httpx2.AsyncClient(auth=auth) as http, session(url, STATELESS, http=http) as client:
            assert await text(client, "whoami") == "anybody"
        assert storage.client is not None
        assert storage.client.client_id == document
        assert books.asked == [("/client.json", f"localhost:{books.port}")]
        assert "Traceback" not in process.output
