"""Headers of the stateless era that repeat the body: version, method, name, parameters."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from kit import Json, Response, Server, call, discover, encoded, headers_for, over, serving
from support import PREFIX, STATELESS, request


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def sentinel(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return f"=?base64?{base64.b64encode(data).decode()}?="


def is_mismatch(response: Response, header: str = "") -> bool:
    """Whether the answer is the refusal of a header."""
    return (response.status, response.code) == (400, -32020) and header in response.message["error"][
        "message"
    ]


# -- Version, method, name -------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [None, "", "2025-11-25", "2026-07-28, 2026-07-28", "2026-07-28x", "2026_07_28"]
)
def test_the_version_is_repeated(server: Server, value: str | None) -> None:
    """HM-16."""
    assert is_mismatch(server.post(discover(), {"MCP-Protocol-Version": value}), "MCP-Protocol-Version")


@pytest.mark.parametrize("versions", [(STATELESS, STATELESS), (STATELESS, "2025-11-25")])
def test_the_version_is_there_once(server: Server, versions: tuple[str, str]) -> None:
    """REQUIREMENTS 4.1, 9: absent, repeated, or different."""
    response = server.post(discover(), [("MCP-Protocol-Version", version) for version in versions])
    assert is_mismatch(response, "MCP-Protocol-Version")


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "Server/Discover",
        "tools/list",
        "server/discover/",
        sentinel("server/discover"),
        "server discover",
    ],
)
def test_the_method_is_repeated(server: Server, value: str | None) -> None:
    """HM-17, HM-20: exactly, and never encoded."""
    assert is_mismatch(server.post(discover(), {"Mcp-Method": value}), "Mcp-Method")


NAMED = {
    "tools/call": ("echo", {"name": "echo", "arguments": {"text": "x"}}),
    "prompts/get": ("greet", {"name": "greet", "arguments": {"name": "Ann"}}),
    "resources/read": ("memo://x", {"uri": "memo://x"}),
}


@pytest.mark.parametrize("method", NAMED)
def test_the_name_is_repeated(server: Server, method: str) -> None:
    """HM-18, HM-19, HM-20: as it is or encoded, blanks around it removed, case kept."""
    name, params = NAMED[method]
    message = request(1, method, params, revision=STATELESS)
    for good in (name, f"  {name}\t", sentinel(name)):
        assert server.post(message, {"Mcp-Name": good}).status == 200
    for bad in (None, "", name.upper(), name + "x", sentinel(name + "x"), f"{name}, {name}"):
        assert is_mismatch(server.post(message, {"Mcp-Name": bad}), "Mcp-Name")


@pytest.mark.parametrize("name", ["mcp-name", "MCP-NAME", "mCp-NaMe"])
def test_header_names_have_no_case(server: Server, name: str) -> None:
    """HM-19."""
    response = server.post(call(1, "echo", {"text": "x"}), [("Mcp-Name", "echo")])
    assert response.text == "x"
    headers = [
        (key if key != "Mcp-Name" else name, value) for key, value in over(headers_for(call(1, "echo")), ())
    ]
    assert server.ask("POST", headers, encoded(call(1, "echo", {"text": "x"}))).text == "x"


def test_a_header_with_two_values_is_refused(server: Server) -> None:
    """HM-22."""
    message = call(1, "echo", {"text": "x"})
    for header, values in (("Mcp-Method", ("tools/call", "tools/list")), ("Mcp-Name", ("echo", "big"))):
        assert is_mismatch(server.post(message, [(header, value) for value in values]), header)


def test_a_name_where_there_is_none_is_ignored(server: Server) -> None:
    """HM-22."""
    assert server.post(discover(), {"Mcp-Name": "anything"}).status == 200


@pytest.mark.parametrize(
    "uri",
    [
        "memo://Grüße",
        "memo://日本",
        "memo:// a ",
        "memo://a\tb",
        "=?base64?eA==?=",
        "=?base64??=",
        "memo://\x7f",
    ],
)
def test_names_that_no_header_can_hold_are_encoded(server: Server, uri: str) -> None:
    """HM-20, HM-21."""
    message = request(1, "resources/read", {"uri": uri}, revision=STATELESS)
    assert server.post(message, {"Mcp-Name": sentinel(uri)}).status == 200
    if not uri.isascii() or uri == "=?base64?eA==?=":
        bare = uri.encode().decode("latin-1")
        assert is_mismatch(server.post(message, {"Mcp-Name": bare}), "Mcp-Name")


@pytest.mark.parametrize(
    "value",
    [
        "=?base64?ZWNobw?=",
        "=?base64?ZWNo bw==?=",
        "=?base64?ZWNobw===?=",
        "=?base64?ZWNob!==?=",
        "=?base64?/w==?=",
        "=?base64?",
        "=?base64?ZWNobw==",
        "=?BASE64?ZWNobw==?=",
        "=?utf-8?B?ZWNobw==?=",
        " =?base64?ZWNobw==?= x",
        "=?base64?ZWNobw=-?=",
    ],
)
def test_bad_encodings_are_refused(server: Server, value: str) -> None:
    """HM-20: strict Base64 with padding, of UTF-8; anything else is literal."""
    assert is_mismatch(server.post(call(1, "echo", {"text": "x"}), {"Mcp-Name": value}), "Mcp-Name")


@pytest.mark.parametrize("value", ["echo\x80", "\xe9cho", "ec\xffho"])
def test_characters_outside_ascii_are_refused(server: Server, value: str) -> None:
    """HM-21."""
    for header in ("Mcp-Name", "Mcp-Method", "MCP-Protocol-Version"):
        response = server.post(call(1, "echo", {"text": "x"}), {header: value})
        assert response.status == 400


# -- Parameters ------------------------------------------------------------------------------


def route(server: Server, arguments: Json, *headers: tuple[str, str]) -> Response:
    return server.post(call(1, "route", arguments), headers)


@pytest.mark.parametrize(
    ("arguments", "headers", "text"),
    [
        ({"region": "eu"}, {"Region": "eu"}, "eu None None"),
        ({"region": "eu"}, {"region": " eu\t"}, "eu None None"),
        ({"region": "é ü"}, {"REGION": sentinel("é ü")}, "é ü None None"),
        ({"region": " x "}, {"Region": sentinel(" x ")}, " x  None None"),
        ({"region": ""}, {"Region": ""}, " None None"),
        ({"region": "true"}, {"Region": "true"}, "true None None"),
        ({"shard": 42}, {"Shard": "42"}, "None 42 None"),
        ({"shard": 42}, {"Shard": "42.0"}, "None 42 None"),
        ({"shard": -0}, {"Shard": "0"}, "None 0 None"),
        ({"shard": 2**53 - 1}, {"Shard": str(2**53 - 1)}, f"None {2**53 - 1} None"),
        ({"dry": True}, {"Dry-Run": "true"}, "None None True"),
        ({"dry": False}, {"Dry-Run": "false"}, "None None False"),
        ({"region": None}, {}, "None None None"),
        ({}, {}, "None None None"),
        ({"region": "eu"}, {"Region": "eu", "Unknown": "x"}, "eu None None"),
        ({"note": "x"}, {"Note": "y"}, "None None None"),
    ],
)
def test_parameters_that_are_repeated_well_pass(
    server: Server, arguments: Json, headers: dict[str, str], text: str
) -> None:
    """XH-03, XH-05, XH-06."""
    response = route(server, arguments, *((f"Mcp-Param-{name}", value) for name, value in headers.items()))
    assert response.status == 200, response
    assert response.text == text


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"Region": "us"}),
        ({"region": "eu"}, {"Region": "EU"}),
        ({"region": "eu"}, {"Region": ""}),
        ({"region": "eu"}, {"Region": "=?base64?!!!?="}),
        ({"region": "é"}, {"Region": "é"}),
        ({"region": ""}, {}),
        ({}, {"Region": "eu"}),
        ({}, {"Region": ""}),
        ({"region": None}, {"Region": "null"}),
        ({"region": None}, {"Region": "eu"}),
        ({"shard": 42}, {"Shard": "43"}),
        ({"shard": 42}, {"Shard": "forty-two"}),
        ({"shard": 42}, {"Shard": "nan"}),
        ({"shard": 42}, {"Shard": "4_2"}),
        ({"shard": 42}, {"Shard": ""}),
        ({"shard": 2**53 + 1}, {"Shard": str(2**53)}),
        ({"dry": True}, {"Dry-Run": "True"}),
        ({"dry": True}, {"Dry-Run": "1"}),
        ({"dry": False}, {"Dry-Run": "true"}),
        ({"dry": True}, {}),
        ({"region": "eu", "shard": 1}, {"Region": "eu"}),
        ({"region": ["eu"]}, {"Region": "eu"}),
        ({"region": {"a": 1}}, {}),
    ],
)
def test_parameters_that_differ_are_refused(server: Server, arguments: Json, headers: dict[str, str]) -> None:
    """XH-03, XH-04, XH-09: before the arguments are looked at any further."""
    response = route(server, arguments, *((f"Mcp-Param-{name}", value) for name, value in headers.items()))
    assert is_mismatch(response, "Mcp-Param-"), response


def test_a_parameter_with_two_values_is_refused(server: Server) -> None:
    """HM-22."""
    response = route(server, {"region": "eu"}, ("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "us"))
    assert is_mismatch(response, "Mcp-Param-Region")


@pytest.mark.parametrize("text", ['{"region": "eu"}', ' {"region":"eu"}'])
def test_arguments_sent_as_text_are_compared_as_well(server: Server, text: str) -> None:
    """XH-03: or a proxy that routes on the header could be passed by."""
    message = call(1, "route")
    message["params"]["arguments"] = text
    assert is_mismatch(server.post(message, {"Mcp-Param-Region": "us"}))
    assert is_mismatch(server.post(message), "Mcp-Param-Region")
    assert server.post(message, {"Mcp-Param-Region": "eu"}).text == "eu None None"


@pytest.mark.parametrize("name", [b'"region"', b'"\\u0072egion"'])
def test_the_last_of_two_members_counts(server: Server, name: bytes) -> None:
    """XH-03: what is compared is what the handler gets."""
    body = encoded(call(1, "route", {"region": "eu"})).replace(
        b'"region": "eu"', name + b': "us", "region": "eu"'
    )
    headers = headers_for(call(1, "route"))
    assert server.ask("POST", {**headers, "Mcp-Param-Region": "eu"}, body).text == "eu None None"
    assert is_mismatch(server.ask("POST", {**headers, "Mcp-Param-Region": "us"}, body))


@pytest.mark.parametrize(
    "arguments",
    [b'{"region": "\xff"}', b'{"region": "\\ud800"}', b'{"note": ' + b"[" * 900 + b"]" * 900 + b"}"],
)
def test_arguments_that_cannot_be_read_get_an_answer(server: Server, arguments: bytes) -> None:
    """PITFALLS: never 500."""
    body = encoded(call(1, "route", {"x": 1})).replace(b'{"x": 1}', arguments)
    for headers in ({}, {"Mcp-Param-Region": "eu"}):
        response = server.ask("POST", {**headers_for(call(1, "route")), **headers}, body)
        assert response.status in (200, 400), response
        assert "error" in response.message or response.result["isError"]
    assert server.is_alive()


def test_the_handshake_era_repeats_nothing(server: Server) -> None:
    """XH-08: listed in every era, checked in one."""
    session = server.session()
    assert session.call(1, "route", {"region": "eu"}).text == "eu None None"
    tools = {tool["name"]: tool for tool in session.post(request(2, "tools/list")).result["tools"]}
    properties = tools["route"]["inputSchema"]["properties"]
    assert [properties[name].get("x-mcp-header") for name in ("region", "shard", "dry", "note")] == [
        "Region",
        "Shard",
        "Dry-Run",
        None,
    ]


def test_the_level_of_logs_is_no_header(server: Server) -> None:
    """META-03: nothing but the body says so."""
    message = call(1, "count", {"to": 1}, **{PREFIX + "logLevel": "info"})
    assert len(server.post(message).messages) == 2
