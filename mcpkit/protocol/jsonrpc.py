"""JSON-RPC 2.0: bytes to messages and back.

Rule 1. A message is decoded in one pass, its `params` left as raw JSON; only a message that fails is looked at a
        second time. (The usual request is not even left raw: see `methods.read`.)
Rule 2. An error names the id of the message whenever a well-formed id can be read, whatever else is wrong
        with the message, so that the client's call ends instead of waiting for ever. It is echoed with its
        exact JSON type.
Rule 3. `encode` always yields one line of valid UTF-8.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from mcpkit.protocol.errors import InvalidParams, InvalidRequest, McpError, ParseError
from mcpkit.protocol.types import RequestId

_BOM = b"\xef\xbb\xbf"
_OBJECT = ord("{")
_BACKSLASH = ord("\\")
_BAD_ID = '"id" must be a string or an integer'


class Message(Struct):
    """A request (`method` and `id`), a notification (`method` alone) or a response (`result` or `error`; the
    error for a message that could not be read has no id, or null).
    """

    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Malformed(Exception):
    """No message can be made of the bytes: the error to answer, and the id to answer to, if one can be read."""

    def __init__(self, error: McpError, request_id: RequestId | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.id = request_id


class ErrorObject(Struct, omit_defaults=True):
    """The `error` member of a response."""

    code: int
    message: str
    data: Any = None


class _Response(Struct, kw_only=True):
    jsonrpc: str = "2.0"
    id: RequestId | UnsetType | None = UNSET
    result: Any


class _ErrorResponse(Struct, kw_only=True):
    jsonrpc: str = "2.0"
    id: RequestId | UnsetType | None = UNSET
    error: ErrorObject


class _Call(Struct, kw_only=True):
    jsonrpc: str = "2.0"
    id: RequestId | UnsetType = UNSET
    method: str
    params: Any = UNSET


_decode_message = msgspec.json.Decoder(Message).decode
_decode_any = msgspec.json.Decoder().decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


def is_array(data: bytes) -> bool:
    """Whether the line is a JSON array: a batch, where batches exist."""
    return data.removeprefix(_BOM).lstrip()[:1] == b"["


def text(data: bytes) -> bytes:
    """The JSON text in `data`: UTF-8, without what some clients put into it. Raises `Malformed`."""
    data = data.removeprefix(_BOM)
    if _BACKSLASH in data and _MAY_BE_SURROGATE.search(data):
        data = _ESCAPE.sub(_repair_surrogate, data)
    if not data.isascii():
        try:
            data.decode()  # msgspec does not look into what stays raw
        except UnicodeError as error:
            raise _diagnose(data, error) from None
    return data


def decode(data: bytes) -> Message:
    """The message in `data`, one JSON text. Raises `Malformed`."""
    data = text(data)
    try:
        message = _decode_message(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise _diagnose(data, error) from None
    if message.method is UNSET:
        if message.result is UNSET and message.error is UNSET:
            problem = InvalidRequest('A message needs a "method", or an "id" with a "result" or an "error"')
            raise Malformed(problem, None if message.id is UNSET else message.id)
    elif message.id is None:
        raise Malformed(InvalidRequest(_BAD_ID))
    if message.params is not UNSET and memoryview(message.params)[0] != _OBJECT:
        message.params = _check_params(message)
    return message


def decode_batch(data: bytes) -> list[bytes]:
    """The elements of an array line, each still JSON text. Raises `Malformed`."""
    try:
        return [bytes(item) for item in _decode_array(data.removeprefix(_BOM))]
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise _diagnose(data, error) from None


def result(request_id: RequestId, value: Any) -> bytes:
    """A response with a result."""
    return encode(_Response(id=request_id, result=value))


def error(request_id: RequestId | UnsetType | None, problem: ErrorObject) -> bytes:
    """A response with an error; an id that is unset is left out."""
    return encode(_ErrorResponse(id=request_id, error=problem))


def request(request_id: RequestId, method: str, params: Any = UNSET) -> bytes:
    """A request."""
    return encode(_Call(id=request_id, method=method, params=params))


def notification(method: str, params: Any = UNSET) -> bytes:
    """A notification."""
    return encode(_Call(method=method, params=params))


def encode(message: Any) -> bytes:
    """One line of JSON, without the line's end. Text that UTF-8 cannot express (lone surrogates) becomes
    U+FFFD.
    """
    try:
        return _encode(message)
    except UnicodeEncodeError:
        return _encode(scrub(msgspec.to_builtins(message, enc_hook=_decode_any)))  # the hook is for Raw


def scrub(value: Any) -> Any:
    """`value` without the lone surrogates that UTF-8 cannot express: each becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {scrub(key): scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(item) for item in value]
    return value


def _check_params(message: Message) -> Raw | UnsetType:
    """Params that are no object. Null is read as absent; an array gets -32602, since MCP's params are always
    named. A notification is never answered, so there they are read as absent as well.
    """
    text = bytes(message.params)  # type: ignore[arg-type]
    if text == b"null" or isinstance(message.id, UnsetType):
        return UNSET
    kind = InvalidParams if text.startswith(b"[") else InvalidRequest
    raise Malformed(kind('"params" must be an object'), message.id)


# A client in JavaScript that cuts a string inside an emoji sends half a surrogate pair, which is JSON but no
# Unicode text.
_MAY_BE_SURROGATE = re.compile(rb"\\u[dD]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _repair_surrogate(match: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if match[1] else match[0]


# -- What is wrong with a message --------------------------------------------------------


def _diagnose(data: bytes, cause: Exception) -> Malformed:
    if isinstance(cause, UnicodeDecodeError):
        return Malformed(ParseError(f"Not valid JSON: no UTF-8 from byte {cause.start} on"))
    if isinstance(cause, RecursionError):
        return Malformed(ParseError("The JSON is nested too deeply"), peek_id(data))
    try:
        value = _decode_any(data)
    except RecursionError:
        return Malformed(ParseError("The JSON is nested too deeply"), peek_id(data))
    except (msgspec.MsgspecError, UnicodeError) as failure:
        return Malformed(ParseError(f"Not valid JSON: {failure}"))
    if not isinstance(value, dict):
        return Malformed(InvalidRequest("A message must be a JSON object"))
    return Malformed(InvalidRequest(_envelope_problem(value)), _well_formed_id(value))


def _envelope_problem(value: dict[str, Any]) -> str:
    if value.get("jsonrpc") != "2.0":
        return '"jsonrpc" must be "2.0"'
    if "id" in value and _well_formed_id(value) is None:
        return _BAD_ID
    return '"method" must be a string'


def _well_formed_id(value: dict[str, Any]) -> RequestId | None:
    request_id = value.get("id")
    return request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None


# A string that is cut off is a token as well: its quotes must not be tried one after the other.
_TOKEN = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]++|[\]}]++|[:,]|[^\s"\[\]{}:,]++', re.DOTALL
)


def peek_id(data: bytes) -> RequestId | None:
    """The id of a message that no decoder takes (too deep, or only its beginning is there), read token by
    token without recursion.
    """
    depth = 0
    before: tuple[bytes, bytes] = (b"", b"")
    for match in _TOKEN.finditer(data):
        token = match.group()
        if depth == 1 and before == (b'"id"', b":"):
            if match.end() == len(data):
                return None  # there may be more of it in what is missing
            try:
                return _well_formed_id({"id": _decode_any(token)})
            except msgspec.MsgspecError:
                return None
        if token[0] in b"[{":
            depth += len(token)
        elif token[0] in b"]}":
            depth -= len(token)
        before = (before[1], token)
    return None
