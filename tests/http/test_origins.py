"""Who may speak to the server: names, origins, and what a browser is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit import Json, Response, Server, call, discover, encoded, headers_for, serving
from support import initialize

from mcpkit.transports.http import Request
from mcpkit.transports.security import Guard


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def open_server() -> Iterator[Server]:
    options = ("--allow-host", "mcp.example.com", "--allow-host", "odd.example:8443")
    pages = ("--allow-origin", "https://app.example.com/", "--allow-origin", "http://other.example:3000")
    with serving("things.py", *options, *pages) as server:
        yield server


def preflight(server: Server, origin: str, asked: str = "content-type", **headers: Json) -> Response:
    """What a browser asks before its real request, which never has credentials."""
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
    return server.ask("OPTIONS", {"Origin": origin, **wanted, **headers}, None)


def names(value: str | None) -> set[str]:
    return {name.strip().lower() for name in (value or "").split(",")}


# -- The server's own name -------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:PORT", "LocalHost:1", "127.0.0.1", "127.0.0.1:PORT", "[::1]", "[::1]:PORT"],
)
def test_a_loopback_server_answers_to_its_own_names(server: Server, host: str) -> None:
    """HM-03, HL-02, PITFALLS: with any port."""
    host = host.replace("PORT", str(server.port))
    for message in (discover(), initialize("2025-11-25")):
        assert server.post(message, {"Host": host}).status == 200
    assert server.post(discover(), {"Host": host, "Origin": f"http://{host.lower()}"}).status == 200


EVIL_HOSTS = [
    "evil.example",
    "evil.example:PORT",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.example#localhost",
    "localhost@evil.example",
    "localhost:80@evil.example",
    "[::1].evil.example",
    "[::1]x:80",
    "[::ffff:127.0.0.1].evil.example",
    "localhost:80:80",
    "127.0.0.2.nip.example",
    "0.0.0.0",
    "2130706433",
    "localhost.",
    "",
]


@pytest.mark.parametrize("host", EVIL_HOSTS)
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE", "OPTIONS"])
def test_a_loopback_server_answers_to_no_other(server: Server, host: str, verb: str) -> None:
    """HM-03, SEC-01: which defeats DNS rebinding, for every verb."""
    message = initialize("2025-11-25")
    headers = {**headers_for(message), "Host": host.replace("PORT", str(server.port))}
    response = server.ask(verb, headers, encoded(message) if verb == "POST" else None)
    assert response.status == 403, response
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("mcp.example.com", 200),
        ("mcp.example.com:443", 200),
        ("MCP.Example.Com", 200),
        ("odd.example:8443", 200),
        ("odd.example", 403),
        ("odd.example:1", 403),
        ("127.0.0.1:PORT", 200),
        ("sub.mcp.example.com", 403),
        ("evil.example", 403),
    ],
)
def test_the_operator_can_allow_names(open_server: Server, host: str, status: int) -> None:
    """HM-03, PITFALLS: a host that a proxy forwards."""
    response = open_server.post(discover(), {"Host": host.replace("PORT", str(open_server.port))})
    assert response.status == status


# -- Pages -----------------------------------------------------------------------------------


EVIL_ORIGINS = [
    "http://evil.example",
    "https://evil.example",
    "null",
    "",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example:80",
    "http://evil.example:80/localhost",
    "http://localhost:80@evil.example",
    "http://localhost@evil.example",
    "http://localhost:1, http://evil.example",
    "http://evil.example, http://localhost:1",
    "http://[::1].evil.example",
    "localhost",
    "file://",
    "chrome-extension://localhost",
    "javascript://localhost/%0aalert(1)",
]


@pytest.mark.parametrize("origin", EVIL_ORIGINS)
def test_pages_of_other_origins_are_refused(server: Server, origin: str) -> None:
    """HM-02, HL-02, PITFALLS: with an error that has no id, no session, and nothing that a browser would read."""
    for message in (discover(), initialize("2025-11-25")):
        response = server.post(message, {"Origin": origin})
        assert response.status == 403, response
        assert "id" not in response.message
        assert response.get("mcp-session-id") is None
        assert response.get("access-control-allow-origin") is None
    for verb in ("GET", "DELETE", "OPTIONS"):
        assert server.ask(verb, {"Origin": origin}, None).status == 403
    assert preflight(server, origin).status == 403


def test_two_origins_are_none(server: Server) -> None:
    """HM-02: a browser sends one."""
    headers = [("Origin", "http://localhost:1"), ("Origin", "http://evil.example")]
    assert server.post(discover(), headers).status == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:6274",
        "https://localhost:1",
        "http://127.0.0.1:PORT",
        "http://[::1]:3000",
    ],
)
def test_pages_of_this_machine_are_served(server: Server, origin: str) -> None:
    """HM-02, HM-03: an inspector on another port, for instance."""
    origin = origin.replace("PORT", str(server.port))
    response = server.post(discover(), {"Origin": origin})
    assert response.status == 200
    assert response.get("access-control-allow-origin") == origin
    assert "origin" in names(response.get("vary"))


def test_programs_that_are_no_pages_are_served(server: Server) -> None:
    """HM-02: they send no Origin, and get nothing of CORS."""
    response = server.post(discover())
    assert response.status == 200
    assert not any(name.startswith("access-control") for name, _ in response.headers)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://app.example.com", 200),
        ("HTTPS://APP.example.com", 200),
        ("http://other.example:3000", 200),
        ("http://app.example.com", 403),
        ("https://app.example.com:444", 403),
        ("http://other.example", 403),
        ("https://evil.app.example.com", 403),
        ("null", 403),
        ("http://localhost:5173", 200),
    ],
)
def test_the_operator_can_allow_pages(open_server: Server, origin: str, status: int) -> None:
    """HM-02: exactly, scheme and port included."""
    assert open_server.post(discover(), {"Origin": origin}).status == status


def test_a_page_of_the_server_itself_is_served(open_server: Server) -> None:
    """HM-02: the same origin, under a name that the operator allowed."""
    same = {"Host": "mcp.example.com", "Origin": "http://mcp.example.com"}
    assert open_server.post(discover(), same).status == 200
    assert open_server.post(discover(), same | {"Origin": "https://mcp.example.com"}).status == 403


# -- What browsers are told ------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_preflight_is_answered(open_server: Server, path: str) -> None:
    """HM-09, PITFALLS: 204 without credentials, for all that a client sends."""
    asked = "content-type, mcp-param-region, x-something"
    headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
    response = open_server.ask("OPTIONS", {"Origin": "https://app.example.com", **headers}, None, path=path)
    assert (response.status, response.body) == (204, b"")
    assert response.get("access-control-allow-origin") == "https://app.example.com"
    assert {"post", "get", "delete"} <= names(response.get("access-control-allow-methods"))
    allowed = names(response.get("access-control-allow-headers"))
    wanted = (
        "Content-Type Authorization Last-Event-ID Mcp-Session-Id MCP-Protocol-Version Mcp-Method Mcp-Name"
    )
    assert set(wanted.lower().split()) | {"mcp-param-region"} <= allowed
    assert "x-something" not in allowed
    assert "origin" in names(response.get("vary"))
    assert response.get("content-length") is None


@pytest.mark.parametrize(
    "asked",
    ["mcp-param-a\x01b", "mcp-param-\xff", "mcp-param-a b, ,,", "mcp-param-" + "x" * 4000, "mcp-param-a;b"],
)
def test_a_strange_preflight_is_answered(open_server: Server, asked: str) -> None:
    """What is echoed is a header name and nothing else."""
    response = preflight(open_server, "https://app.example.com", asked)
    assert response.status in (204, 400)
    echoed = names(response.get("access-control-allow-headers"))
    assert all(character.isalnum() or character in "-_" for name in echoed for character in name)
    assert open_server.is_alive()


def test_answers_show_a_page_what_it_needs(open_server: Server) -> None:
    """PITFALLS: Mcp-Session-Id and WWW-Authenticate are exposed, on errors and streams as well."""
    page = {"Origin": "https://app.example.com"}
    responses = [
        open_server.post(initialize("2025-11-25"), page),
        open_server.post(call(1, "count", {"to": 1}, progressToken=1), page),
        open_server.post(call(1, "fail", {"code": -32021}), page),
        open_server.post(b"{", page),
        open_server.post(discover(), {**page, "Accept": "text/html"}),
        open_server.post(discover(), {**page, "Content-Type": "text/plain"}),
        open_server.post(discover(), {**page, "Mcp-Session-Id": "x", "MCP-Protocol-Version": None}),
        open_server.ask("DELETE", {**page, "Mcp-Session-Id": "x"}, None),
        open_server.post(
            {"jsonrpc": "2.0", "method": "notifications/x"}, {**page, "MCP-Protocol-Version": "2026-07-28"}
        ),
    ]
    for response in responses:
        assert response.get("access-control-allow-origin") == "https://app.example.com", response
        assert {"mcp-session-id", "www-authenticate"} == names(response.get("access-control-expose-headers"))
        assert response.get("access-control-allow-credentials") is None


# -- The address that was connected to -------------------------------------------------------


def request(server: str | None, **headers: str) -> Request:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request("POST", "/mcp", pairs, "http", server)


@pytest.mark.parametrize(
    "server", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "localhost", "::1%lo"]
)
def test_every_loopback_address_is_one(server: str) -> None:
    """HM-03: however it is written, and on a socket that listens everywhere as well."""
    guard = Guard()
    assert guard.refuses(request(server, host="evil.example"))
    assert guard.refuses(request(server, host="localhost:8000")) is None


@pytest.mark.parametrize("server", ["192.168.1.5", "::ffff:192.168.1.5", "2001:db8::1", None])
def test_other_addresses_answer_to_every_name(server: str | None) -> None:
    """PITFALLS: a LAN bind; what it is called there, only the operator knows. Pages are refused all the same."""
    guard = Guard()
    assert guard.refuses(request(server, host="mcp.lan:8000")) is None
    assert guard.refuses(request(server, host="mcp.lan:8000", origin="http://mcp.lan:8000")) is None
    assert guard.refuses(request(server, host="mcp.lan:8000", origin="http://evil.example"))
    assert guard.refuses(request(server, host="mcp.lan:8000", origin="http://localhost"))
    assert guard.refuses(request(server, host="mcp.lan:8000", origin="null"))


def test_allowed_names_are_the_only_ones_there() -> None:
    """HM-03: the operator has said what it is called."""
    guard = Guard(["mcp.lan"])
    assert guard.refuses(request("192.168.1.5", host="mcp.lan:8000")) is None
    assert guard.refuses(request("192.168.1.5", host="other.lan"))
    assert guard.refuses(request("192.168.1.5", host="localhost"))


def test_all_pages_can_be_allowed() -> None:
    """HM-02: the operator's list may hold a star."""
    guard = Guard(origins=["*"])
    for origin in ("https://any.example", "null"):
        assert guard.refuses(request("127.0.0.1", host="localhost", origin=origin)) is None
