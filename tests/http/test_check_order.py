"""A request that is wrong in two ways is told of the first, in the order of REQUIREMENTS 4.1."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kit import Json, Response, Server, call, encoded, headers_for, serving
from support import PREFIX, STATELESS, request

CHECKS: dict[str, tuple[int, int, str]] = {
    "verb": (405, -32600, "PUT"),
    "host": (403, -32600, "Forbidden"),
    "origin": (403, -32600, "Forbidden"),
    "content type": (415, -32600, "Content-Type"),
    "size": (413, -32600, "limit"),
    "accept": (406, -32600, "Accept"),
    "json": (400, -32700, "JSON"),
    "array": (400, -32600, ""),
    "envelope": (400, -32600, "jsonrpc"),
    "meta": (400, -32602, "protocolVersion"),
    "version header": (400, -32020, "MCP-Protocol-Version"),
    "version": (400, -32022, "2099-01-01"),
    "capabilities": (400, -32602, "clientCapabilities"),
    "method header": (400, -32020, "Mcp-Method"),
    "method": (404, -32601, "no/such"),
    "name header": (400, -32020, "Mcp-Name"),
    "parameter header": (400, -32020, "Mcp-Param-Region"),
    "params": (200, -32602, "arguments"),
}
"""Each check in its order: the status and code of its failure, and a word of the message."""

LIMIT = 4096


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("things.py", "--max-body", str(LIMIT)) as server:
        yield server


def ask(server: Server, wrong: set[str]) -> Response:
    """A call of a tool with a mirrored parameter, wrong in those ways."""
    message: Json = call(1, "route", {"region": "eu"})
    if "params" in wrong:
        message["params"]["arguments"] = 5  # no object, so there is no region in it either
    if "method" in wrong:
        message["method"] = "no/such"
    if "version" in wrong:
        message["params"]["_meta"][PREFIX + "protocolVersion"] = "2099-01-01"
    headers = headers_for(message) | {"Mcp-Param-Region": "eu"}
    if "parameter header" in wrong:
        headers["Mcp-Param-Region"] = "us"
    elif "params" in wrong:
        headers["Mcp-Param-Region"] = None
    if "capabilities" in wrong and "meta" not in wrong:  # without both, nothing would say which era it is
        del message["params"]["_meta"][PREFIX + "clientCapabilities"]
    if "meta" in wrong:
        del message["params"]["_meta"][PREFIX + "protocolVersion"]
    if "envelope" in wrong:
        message["jsonrpc"] = "1.0"
    absent = {
        "name header": "Mcp-Name",
        "method header": "Mcp-Method",
        "version header": "MCP-Protocol-Version",
    }
    headers |= {absent[name]: None for name in wrong & absent.keys()}
    replaced = {
        "accept": ("Accept", "text/html"),
        "content type": ("Content-Type", "text/plain"),
        "origin": ("Origin", "http://evil.example"),
        "host": ("Host", "evil.example"),
    }
    headers |= dict(replaced[name] for name in wrong & replaced.keys())
    body = encoded([message] if "array" in wrong else message)
    body = body[:-1] if "json" in wrong else body
    body += b" " * LIMIT * ("size" in wrong)
    return server.ask("PUT" if "verb" in wrong else "POST", headers, body)


def told(response: Response, check: str) -> bool:
    """Whether the response is what a failure of that check gets."""
    status, code, word = CHECKS[check]
    return (response.status, response.code) == (status, code) and word in response.message["error"]["message"]


def test_the_request_is_good(server: Server) -> None:
    """Nothing else is wrong with it."""
    assert ask(server, set()).text == "eu None None"


@pytest.mark.parametrize("check", CHECKS)
def test_each_failure_has_its_answer(server: Server, check: str) -> None:
    """REQUIREMENTS 4.1 and 3."""
    response = ask(server, {check})
    assert told(response, check), response


@pytest.mark.parametrize(("first", "second"), list(itertools.pairwise(CHECKS)))
def test_the_first_of_two_neighbouring_failures_answers(server: Server, first: str, second: str) -> None:
    """REQUIREMENTS 4.1: first failure wins."""
    response = ask(server, {first, second})
    assert told(response, first), response


@pytest.mark.parametrize("first", list(CHECKS)[:-2])
def test_the_first_of_all_later_failures_answers(server: Server, first: str) -> None:
    """REQUIREMENTS 4.1: a request that fails this check and every one after it."""
    names = list(CHECKS)
    response = ask(server, set(names[names.index(first) :]))
    assert told(response, first), response


@pytest.mark.parametrize(
    ("method", "params", "header"),
    [
        ("prompts/get", {"name": "greet", "arguments": {"name": 1}}, "Mcp-Name"),
        ("prompts/get", {"arguments": {"name": 1}}, "Mcp-Name"),
        ("resources/read", {"uri": 5}, "Mcp-Name"),
    ],
)
def test_the_name_header_comes_before_the_parameters(
    server: Server, method: str, params: Json, header: str
) -> None:
    """REQUIREMENTS 4.1, 14 before 16."""
    message = request(1, method, params, revision=STATELESS)
    response = server.post(message, {"Mcp-Name": None})
    assert (response.status, response.code) == (400, -32020), response
    assert header in response.message["error"]["message"]


@pytest.mark.parametrize("level", ["loud", 5, None])
def test_the_log_level_belongs_to_the_envelope(server: Server, level: Json) -> None:
    """META-08, and REQUIREMENTS 4.1, 11 before 12."""
    message = call(1, "echo", {"text": "x"}, **{PREFIX + "logLevel": level})
    response = server.post(message, {"Mcp-Method": None})
    assert (response.status, response.code) == (400, -32602), response
    assert "logLevel" in response.message["error"]["message"]


@pytest.mark.parametrize(("verb", "status"), [("GET", 404), ("POST", 404), ("OPTIONS", 404), ("PUT", 404)])
def test_another_path_is_not_found(server: Server, verb: str, status: int) -> None:
    """REQUIREMENTS 4.1, 1: the path comes first."""
    response = server.ask(verb, {"Host": "evil.example"}, None, path="/other")
    assert response.status == status
