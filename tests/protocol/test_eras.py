"""The two eras: who decides, and everything that differs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from support import HANDSHAKE, PREFIX, REVISIONS, STATELESS, meta

from mcpkit.protocol import eras, events, jsonrpc, methods, types
from mcpkit.protocol.errors import InvalidParams, McpError, NotFound
from mcpkit.protocol.events import Envelope

VERSION, CAPABILITIES = PREFIX + "protocolVersion", PREFIX + "clientCapabilities"
CURRENT = "2025-11-25"
SESSION = Envelope(CURRENT, types.Implementation("c", "1"), {"roots": {}}, "info")
IDENTITY = events.Identity(types.Implementation("n", "1"), {"ttl_ms": 7, "cache_scope": "public"})


def identified(method: str, params: Any, session: Envelope | None = None) -> Envelope:
    """The envelope of a request."""
    raw = msgspec.UNSET if params is ... else msgspec.Raw(json.dumps(params).encode())
    data = jsonrpc.request(1, method, raw)
    return eras.identify(method, methods.decode_params(method, raw), data, session)


def code(method: str, params: Any, session: Envelope | None = None) -> int:
    """The code of the error for a request."""
    with pytest.raises(McpError) as caught:
        identified(method, params, session)
    return caught.value.code


# -- Rule 1: decided per request, from _meta alone --------------------------------------------------------------


@pytest.mark.parametrize("session", [None, SESSION], ids=["fresh", "session"])
def test_a_request_with_both_keys_is_of_the_stateless_era(session: Envelope | None) -> None:
    """ERA-01, META-03: whatever came before it."""
    own = meta(
        **{
            CAPABILITIES: {"sampling": {}},
            PREFIX + "logLevel": "error",
            PREFIX + "clientInfo": {"name": "a", "version": "b"},
        }
    )
    envelope = identified("tools/list", {"_meta": own}, session)
    assert envelope == Envelope(STATELESS, types.Implementation("a", "b"), {"sampling": {}}, "error")


@pytest.mark.parametrize(
    "params", [..., {}, {"_meta": {}}, {"_meta": {"progressToken": 1}}, {"_meta": {PREFIX + "clientInfo": 5}}]
)
def test_a_request_with_neither_key_is_the_sessions(params: Any) -> None:
    """ERA-01, ERA-10: another key of the protocol alone does not make it stateless."""
    assert identified("tools/list", params, SESSION) is SESSION
    assert code("tools/list", params) == -32600


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({VERSION: STATELESS}, -32602),
        ({CAPABILITIES: {}}, -32602),
        ({VERSION: None}, -32602),
        ({VERSION: 5, CAPABILITIES: {}}, -32602),
        ({VERSION: "2099-01-01"}, -32022),
        ({VERSION: "2099-01-01", CAPABILITIES: 5}, -32022),
        ({VERSION: CURRENT, CAPABILITIES: 5}, -32022),
        ({VERSION: STATELESS, CAPABILITIES: 5}, -32602),
        ({VERSION: STATELESS, CAPABILITIES: {}, "progressToken": []}, -32602),
    ],
    ids=lambda own: str(own).replace(PREFIX, ""),
)
@pytest.mark.parametrize("method", ["tools/list", "ping", "initialize", "unheard/of"])
@pytest.mark.parametrize("session", [None, SESSION], ids=["fresh", "session"])
def test_the_version_is_looked_at_first_then_meta_then_the_method(
    own: Any, expected: int, method: str, session: Envelope | None
) -> None:
    """Section 4.1, steps 8 to 13: the rest of `_meta` has the shape that the version gives it."""
    assert code(method, {"_meta": own}, session) == expected


@pytest.mark.parametrize("params", [{"name": 5}, {}, {"name": "t", "arguments": 5}])
def test_the_parameters_are_looked_at_last(params: Any) -> None:
    """Section 4.1, steps 13 and 16."""
    assert code("unheard/of", {**params, "_meta": meta()}) == -32601
    assert identified("tools/call", {**params, "_meta": meta()}).revision == STATELESS


def test_what_is_wrong_with_meta_is_named() -> None:
    """STYLE, "Errors are for people": which key, never its value."""
    with pytest.raises(InvalidParams, match="logLevel") as caught:
        identified("tools/list", {"_meta": meta(**{PREFIX + "logLevel": "secret"})})
    assert "secret" not in caught.value.message


# -- The handshake ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", methods.METHODS)
def test_a_method_exists_in_the_eras_of_its_row(method: str) -> None:
    """Section 1.1: -32601 in the other."""
    row = methods.METHODS[method]
    for revision, params, session in ((STATELESS, {"_meta": meta()}, None), (CURRENT, ..., SESSION)):
        if revision == CURRENT and method == "initialize":
            assert code(method, params, session) == -32600
        elif row.exists_in(revision):
            assert identified(method, params, session).revision == revision
        else:
            assert code(method, params, session) == -32601


@pytest.mark.parametrize("proposed", [*HANDSHAKE, STATELESS, "2099-01-01", ""])
def test_a_session_speaks_what_was_proposed_or_the_newest_that_has_a_handshake(proposed: str) -> None:
    """ERA-07."""
    client = types.Implementation("c", "1")
    session = eras.negotiate(
        types.InitializeParams(protocol_version=proposed, capabilities={"a": {}}, client_info=client)
    )
    assert session == Envelope(proposed if proposed in HANDSHAKE else CURRENT, client, {"a": {}}, "info")


def test_the_served_versions_are_listed_newest_first() -> None:
    """ERA-06; the list is the caller's own."""
    assert eras.supported_versions() == list(reversed(REVISIONS))
    eras.supported_versions().clear()
    assert eras.supported_versions() == list(reversed(REVISIONS))


# -- What is sent ----------------------------------------------------------------------------------------------


def envelope(revision: str) -> Envelope:
    """A request of the revision."""
    return Envelope(revision, None, {}, None)


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_handshake_result_stays_plain(revision: str) -> None:
    """RPC-12: also where a resource says how long it may be kept."""
    result = types.ReadResourceResult(contents=[], ttl_ms=5, cache_scope="public")
    assert json.loads(jsonrpc.encode(eras.seal(result, envelope(revision), IDENTITY, wrap=False))) == {
        "contents": []
    }


def test_a_stateless_result_says_what_it_is_and_whose() -> None:
    """RPC-11, META-05, CACH-01: the server's cache fields, unless the result has its own; application keys stay."""
    for own, cache in (({}, (7, "public")), ({"ttl_ms": 0, "cache_scope": "private"}, (0, "private"))):
        given = {"example.com/a": 1}
        result = types.ReadResourceResult(contents=[], meta=given, **own)
        sealed = json.loads(jsonrpc.encode(eras.seal(result, envelope(STATELESS), IDENTITY, wrap=False)))
        assert (sealed["ttlMs"], sealed["cacheScope"]) == cache
        assert sealed["resultType"] == "complete"
        assert sealed["_meta"] == {"example.com/a": 1, PREFIX + "serverInfo": {"name": "n", "version": "1"}}
        assert given == {"example.com/a": 1}


def test_the_servers_identity_cannot_be_overwritten() -> None:
    """RPC-14."""
    result = types.Result(meta={PREFIX + "serverInfo": "mine"})
    sealed = eras.seal(result, envelope(STATELESS), IDENTITY, wrap=False)
    assert sealed.meta == {PREFIX + "serverInfo": IDENTITY.implementation}


@pytest.mark.parametrize(
    "kind", [types.Result, types.CallToolResult, types.GetPromptResult, types.CompleteResult]
)
def test_only_cacheable_results_have_cache_fields(kind: type[types.Result]) -> None:
    """CACH-01, PRM-05, CMP-05."""
    filled = {
        types.CallToolResult: {"content": []},
        types.GetPromptResult: {"messages": []},
        types.CompleteResult: {"completion": types.Completion([])},
    }.get(kind, {})
    sealed = json.loads(jsonrpc.encode(eras.seal(kind(**filled), envelope(STATELESS), IDENTITY, wrap=False)))
    assert not sealed.keys() & {"ttlMs", "cacheScope"}


OWN = {
    -32002: HANDSHAKE,
    -32042: (CURRENT,),
    -32020: (STATELESS,),
    -32021: (STATELESS,),
    -32022: (STATELESS,),
}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_reserved_code_is_exchanged_where_it_is_not_defined(revision: str) -> None:
    """ERR-01, ERR-02, ERR-03: for one of the revision's own, else for -32603."""
    for code in range(-32099, -32000):
        sent = eras.error_object(McpError(code, "m", {"d": 1}), envelope(revision))
        if revision in OWN.get(code, ()):
            assert sent.code == code
        else:
            assert sent.code in (-32600, -32602, -32603)
        assert (sent.message, sent.data) == ("m", {"d": 1})


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603, -31999, -33000, 0, 1, 2**40])
@pytest.mark.parametrize("revision", [None, *REVISIONS])
def test_any_other_code_stays(revision: str | None, code: int) -> None:
    """ERR-01."""
    at = None if revision is None else envelope(revision)
    assert eras.error_object(McpError(code, "m"), at).code == code


def test_not_found_has_a_code_of_its_own_in_the_handshake_era() -> None:
    """RES-03, RES-04."""
    codes = {revision: eras.error_object(NotFound(), envelope(revision)).code for revision in REVISIONS}
    assert codes == {**dict.fromkeys(HANDSHAKE, -32002), STATELESS: -32602}


@pytest.mark.parametrize("revision", REVISIONS)
def test_completions_are_declared_since_there_is_a_key_for_them(revision: str) -> None:
    """Section 1.2, CMP-01."""
    declared = eras.capabilities({"tools": {}, "completions": {}}, envelope(revision))
    assert declared == ({"tools": {}} if revision == "2024-11-05" else {"tools": {}, "completions": {}})


@pytest.mark.parametrize("session", [None, *HANDSHAKE])
def test_batches_and_null_ids_belong_to_sessions(session: str | None) -> None:
    """BAT-01, RPC-06."""
    at = None if session is None else envelope(session)
    assert eras.allows_batch(at) == (session == "2025-03-26")
    assert (eras.unreadable_id(at) is None) == (session in HANDSHAKE[:3])


@pytest.mark.parametrize("bad", [(True, "m"), ("5", "m"), (1.5, "m"), (None, "m"), (5, None), (5, b"m")])
def test_an_error_that_would_be_no_message_cannot_be_made(bad: Any) -> None:
    """RPC-03: an integer and a string."""
    with pytest.raises(TypeError, match="McpError"):
        McpError(*bad)
