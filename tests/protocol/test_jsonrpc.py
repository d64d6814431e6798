"""JSON-RPC: bytes to messages and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from mcpkit.protocol import jsonrpc
from mcpkit.protocol.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from mcpkit.protocol.jsonrpc import Malformed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
IDS = st.integers() | st.text()
WITH_HALVES = st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010))
"""Text with lone surrogates."""


def refused(data: bytes) -> tuple[int, Any]:
    """The code and the id of the error for a text that is no message."""
    with pytest.raises(Malformed) as caught:
        jsonrpc.decode(data)
    return caught.value.error.code, caught.value.id


# -- In --------------------------------------------------------------------------------------------------------


@given(IDS, st.text(), st.dictionaries(st.text(), JSON, max_size=3))
def test_what_is_encoded_is_decoded_as_it_was(id: Any, method: str, params: dict[str, Any]) -> None:
    """RPC-01, RPC-02: ids with their type; params left as JSON."""
    message = jsonrpc.decode(jsonrpc.request(id, method, params))
    assert (message.id, type(message.id), message.method) == (id, type(id), method)
    assert json.loads(bytes(message.params)) == params  # type: ignore[arg-type]


@given(st.text(), st.dictionaries(st.text(), JSON, max_size=3))
def test_a_notification_has_no_id(method: str, params: dict[str, Any]) -> None:
    """JSON-RPC 2.0 section 4.1."""
    message = jsonrpc.decode(jsonrpc.notification(method, params))
    assert (message.id, message.method) == (UNSET, method)


def outcome(data: bytes) -> tuple[int | None, Any]:
    """The code of the error, None for a message; and the id."""
    try:
        message = jsonrpc.decode(data)
    except Malformed as malformed:
        return malformed.error.code, malformed.id
    return None, message.id


@given(st.binary())
def test_bytes_are_a_message_or_malformed(data: bytes) -> None:
    """PITFALLS, stdio row 3: nothing else comes out of them."""
    assert outcome(data)[0] in (None, PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS)


@given(JSON)
def test_any_json_is_a_message_or_malformed(value: Any) -> None:
    """RPC-07."""
    assert outcome(json.dumps(value).encode())[0] in (None, INVALID_REQUEST)


@given(
    IDS,
    st.dictionaries(st.sampled_from(["jsonrpc", "method", "params", "result", "error"]), JSON),
    st.booleans(),
)
def test_a_well_formed_id_is_read_whatever_else_is_wrong(id: Any, rest: dict[str, Any], last: bool) -> None:
    """Rule 2 of the module; RPC-05: the client's call must end."""
    message = {**rest, "id": id} if last else {"id": id, **rest}
    _, found = outcome(json.dumps(message).encode())
    assert (found, type(found)) == (id, type(id))


@given(IDS, st.dictionaries(st.text(min_size=3), JSON, max_size=3), st.data())
def test_a_message_that_is_cut_or_followed_by_junk_is_a_parse_error(
    id: Any, params: dict[str, Any], data: st.DataObject
) -> None:
    """STYLE habit 3; RPC-07."""
    text = jsonrpc.request(id, "method", params)
    cut = data.draw(st.integers(1, len(text) - 1))
    assert refused(text[:cut])[0] == PARSE_ERROR
    for junk in (b"x", b"{}", b",", b"]", b"}", b"\x00", text):
        assert refused(text + junk)[0] == PARSE_ERROR


@pytest.mark.parametrize(
    ("text", "code", "id"),
    [
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":false,"method":"m"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}', INVALID_PARAMS, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":"p"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":"a","method":"m","params":true}', INVALID_REQUEST, "a"),
        (b'{"jsonrpc":"2.0","method":1,"params":"bar"}', INVALID_REQUEST, None),
        (b"[1]", INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xff"}}', PARSE_ERROR, None),
        (b"", PARSE_ERROR, None),
        (b"\xef\xbb\xbf", PARSE_ERROR, None),
    ],
)
def test_what_is_wrong_has_its_code(text: bytes, code: int, id: Any) -> None:
    """RPC-02, RPC-07, RPC-08."""
    assert refused(text) == (code, id)


@pytest.mark.parametrize("params", [b"[]", b'"p"', b"5", b"true", b"null"])
def test_params_of_a_notification_that_are_no_object_are_read_as_absent(params: bytes) -> None:
    """RPC-04: there is nobody to complain to."""
    assert jsonrpc.decode(b'{"jsonrpc":"2.0","method":"m","params":%s}' % params).params is UNSET


@pytest.mark.parametrize("id", [b"", b'"id":null,'])
def test_an_error_for_nobody_is_a_response(id: bytes) -> None:
    """RPC-05, RPC-06, RPC-15: not a message to complain about, which could go on for ever."""
    message = jsonrpc.decode(b'{"jsonrpc":"2.0",%s"error":{"code":-32700,"message":"?"}}' % id)
    assert message.method is UNSET


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud83d", "\ufffd"),
        (rb"\udc00", "\ufffd"),
        (rb"\ud83d\ude00", "😀"),
        (rb"\uD83D\uDE00", "😀"),
        (rb"\ud83dx", "\ufffdx"),
        (rb"\ud83d\ud83d\ude00", "\ufffd😀"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\\ud83d", r"\ud83d"),
        (rb"\\\ud83d", "\\\ufffd"),
        (rb"\u00e9\ud7ff\ue000", "é\ud7ff\ue000"),
    ],
)
def test_half_a_surrogate_pair_is_read_as_the_replacement_character(written: bytes, read: str) -> None:
    """RFC 8259 section 8.2: JSON can hold what Unicode text cannot."""
    assert jsonrpc.decode(b'{"jsonrpc":"2.0","id":"%s","method":"m"}' % written).id == read


def test_a_byte_order_mark_is_skipped() -> None:
    """PITFALLS, stdio row 3; RFC 8259 section 8.1 allows to."""
    assert jsonrpc.decode(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}').id == 1
    assert jsonrpc.is_array(b"\xef\xbb\xbf [1]")
    assert jsonrpc.decode_batch(b"\xef\xbb\xbf[1, 2 ]") == [b"1", b"2"]


@pytest.mark.parametrize("data", [b"[", b"[1", b"[1,]", b"[1] x", b"[[" * 100_000])
def test_an_array_that_is_no_json_is_malformed(data: bytes) -> None:
    """RPC-07."""
    assert jsonrpc.is_array(data)
    with pytest.raises(Malformed) as caught:
        jsonrpc.decode_batch(data)
    assert caught.value.error.code == PARSE_ERROR


# -- The id of what cannot be decoded ---------------------------------------------------------------------------

ENVELOPES = [
    '{"jsonrpc":"2.0","id":ID,"method":"m","params":DEEP}',
    '{"id":ID,"jsonrpc":"2.0","params":{"id":1,"x":"\\"id\\":2","y":[{"id":3}],"z":DEEP}}',
    '{"params":{"id":1,"a":[{"id":2}]},"x":"id","y":[":","id"],"id" : ID , "z":DEEP}',
    '{"params":DEEP,"id":ID}',
]


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("id", [1, 0, -5, "a", "", '"', "\\", "{[", "süß", 10**30])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_the_id_of_a_message_that_is_too_deep_is_read(envelope: str, id: Any, brackets: str) -> None:
    """PITFALLS, stdio row 3: JSON nested 20,000 deep; RPC-05. Ids inside of params are others'."""
    opening, closing = ("[", "]") if brackets == "[]" else ('{"a":', "}")
    deep = opening * 20_000 + "0" + closing * 20_000
    text = envelope.replace("ID", json.dumps(id)).replace("DEEP", deep).encode()
    assert jsonrpc.peek_id(text) == id
    assert refused(text) == (PARSE_ERROR, id)


@pytest.mark.parametrize(
    "envelope",
    ['{"params":DEEP}', '{"id":null,"params":DEEP}', '{"id":1.5,"params":DEEP}', '{"id":[],"params":DEEP}'],
)
def test_no_id_is_read_where_there_is_none(envelope: str) -> None:
    """RPC-05."""
    assert jsonrpc.peek_id(envelope.replace("DEEP", "[" * 20_000).encode()) is None


@given(IDS, st.dictionaries(st.text(), JSON, max_size=4), st.data())
def test_the_id_of_a_beginning_is_the_whole_messages_or_none(
    id: Any, params: dict[str, Any], data: st.DataObject
) -> None:
    """PITFALLS, stdio row 4: a message above the limit, of which only the beginning was kept, cut anywhere."""
    text = json.dumps({"params": {"id": "other", **params}, "id": id, "method": "m"}).encode()
    found = jsonrpc.peek_id(text[: data.draw(st.integers(0, len(text)))])
    assert found is None or (found, type(found)) == (id, type(id))


@given(st.binary())
def test_any_bytes_have_an_id_or_none(data: bytes) -> None:
    """Rule 2 of the module."""
    found = jsonrpc.peek_id(data)
    assert found is None or type(found) in (int, str)


@pytest.mark.parametrize("filling", [b'\\"', b"\\\\", b'"', b"[", b"{", b"[1,", b'"a"', b":,", b" ", b"x"])
def test_the_id_of_a_long_beginning_is_looked_for_once(filling: bytes) -> None:
    """SEC-02: a megabyte of quotes or brackets; in quadratic time this would take hours."""
    assert jsonrpc.peek_id(b'{"params":{"x":"' + filling * (2**20 // len(filling))) is None


# -- Out -------------------------------------------------------------------------------------------------------


@given(JSON | WITH_HALVES)
def test_everything_is_encoded_as_one_line_of_utf_8(value: Any) -> None:
    """Rule 3 of the module; STD-01: halves of surrogate pairs included."""
    line = jsonrpc.result(1, {"value": value})
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line.decode("utf-8"))["id"] == 1


@pytest.mark.parametrize(
    ("id", "member"),
    [(1, {"id": 1}), ("1", {"id": "1"}), (0, {"id": 0}), ("", {"id": ""}), (None, {"id": None}), (UNSET, {})],
)
def test_an_error_names_the_id_that_it_is_for(id: Any, member: dict[str, Any]) -> None:
    """RPC-03, RPC-05, RPC-06: with its type; null; or no member at all."""
    got = json.loads(jsonrpc.error(id, jsonrpc.ErrorObject(5, "m")))
    assert got == {"jsonrpc": "2.0", **member, "error": {"code": 5, "message": "m"}}


@pytest.mark.parametrize("data", [0, "", False, [], {}, {"a": None}])
def test_data_of_an_error_is_kept_even_if_it_is_empty(data: Any) -> None:
    """RPC-03: only None is no data."""
    assert json.loads(jsonrpc.error(1, jsonrpc.ErrorObject(5, "m", data)))["error"]["data"] == data
