"""What a tool's return value becomes: content, and structure that fits the schema that was listed.

Rule 1. Structure is encoded once and decoded again as the declared type before it is sent: a value that does
        not fit is an error result, never a message that the client cannot use.
Rule 2. The text block is the JSON of the value itself, compact, in every revision; wrapping it is the
        revision's business.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from mcpkit import foreign, validation
from mcpkit.content import ToolResult, blocks, is_block, is_block_type
from mcpkit.fields import MISSING
from mcpkit.hints import bounds_inside, union_members, unwrap
from mcpkit.protocol import types
from mcpkit.questions import InputRequired
from mcpkit.schema import Schema, Unrepresentable, output_schema, undecodable

_encode = msgspec.json.Encoder(enc_hook=foreign.to_builtins).encode
_STREAMS = (Generator, AsyncGenerator, AsyncIterator)


class BadResult(ValueError):
    """A tool returned what cannot be sent; the message says why."""


class Output:
    """How the values of one tool are sent. `schema` is None where the declared type promises no structure.

    `given` is a hand-written schema. Raises TypeError for a return type without a JSON form.
    """

    def __init__(self, returns: Any, given: Schema | None = None) -> None:
        returns = _without_questions(returns)
        self.schema = given
        self._type: Any = None
        self._check: Callable[[bytes], object] = _nothing
        self._silent = returns is None or returns is type(None)
        self._lists = False
        if given is not None:
            self._check = validation.checker(given)
        elif returns is not MISSING and returns is not Any:
            self._promise(returns)
        self._hides_nan = given is not None or self.schema is None or _hides_nan(self.schema)
        self.wrap = self.schema is not None and self.schema.get("type") != "object"

    def _promise(self, returns: Any) -> None:
        members = [member for member in union_members(_plain(returns)) if member is not None]
        content = [member for member in members if not _is_structured(member)]
        structured = [member for member in members if member not in content]
        if structured:
            self._type = bounds_inside(typing.Union[tuple(structured)] if content else returns)  # noqa: UP007
        if structured and not content:
            self.schema = _describe(returns)
        self._check = _decoder(self._type) if structured else _refuse
        self._lists = any(typing.get_origin(member) is not None for member in content)

    def convert(self, value: Any) -> types.CallToolResult:
        """The result for what the tool returned. Raises `BadResult`."""
        if type(value) is str and self.schema is None:  # the usual, at once
            return types.CallToolResult(content=[types.TextContent(value)])
        if isinstance(value, ToolResult):
            return self._explicit(value)
        if self.schema is None and (value is None or self._is_content(value)):
            return types.CallToolResult(content=blocks(value))
        if self._silent:
            raise BadResult(f"the tool is declared to return None, and returned {_name(value)}")
        if self.schema is not None and _holds_content(value):
            raise BadResult(
                "the tool is declared to return structure, and returned content: annotate it with what it "
                "returns, such as list[Image | str], or leave the annotation out"
            )
        structured = self._structure(value)
        return types.CallToolResult(content=_as_text(structured), structured_content=Raw(structured))

    def _is_content(self, value: Any) -> bool:
        """Whether it is sent as blocks. A list of strings alone is structure, unless a list of content was
        declared.
        """
        if self._lists and isinstance(value, list | tuple):
            return all(is_block(item) for item in value)
        return isinstance(value, str) or _holds_content(value)

    def _explicit(self, result: ToolResult) -> types.CallToolResult:
        content = blocks(result.content)
        structured: Raw | msgspec.UnsetType = UNSET
        if result.has_structured:
            checked = self.schema is not None and not result.is_error
            encoded = self._structure(result.structured) if checked else encode(result.structured)
            structured = Raw(encoded)
            content = content if result.content is not None else _as_text(encoded)
        elif self.schema is not None and not result.is_error:
            raise BadResult("the tool has an output schema, so its ToolResult needs structured=")
        return types.CallToolResult(
            content=content, structured_content=structured, is_error=result.is_error, meta=result.meta
        )

    def _structure(self, value: Any) -> bytes:
        encoded = encode(value, nan_as_null=self._hides_nan)
        try:
            self._check(encoded)
        except ValueError as error:
            if not self._fits_by_itself(value):
                raise BadResult(f"the result does not fit its declared type: {error}") from None
        return encoded

    def _fits_by_itself(self, value: Any) -> bool:
        """Whether it fits when pydantic models in it are taken to be valid: with computed or excluded fields,
        or names for output only, a model does not accept what it was written as.
        """
        if self._type is None:
            return False
        models = foreign.Models()
        encoded = msgspec.json.encode(value, enc_hook=models.to_builtins)
        try:
            msgspec.json.decode(encoded, type=self._type, dec_hook=models.from_builtins)
        except (TypeError, ValueError):
            return False
        return models.found


def _as_text(encoded: bytes) -> list[types.ContentBlock]:
    return [types.TextContent(encoded.decode())]


def encode(value: Any, *, nan_as_null: bool = True) -> bytes:
    """Compact JSON. Raises `BadResult` where there is none, or where it would lose something: NaN becomes null,
    and is looked for unless a null there is refused anyway (`nan_as_null`).
    """
    try:
        encoded = _encode(value)
    except RecursionError:
        raise BadResult("the result is nested too deeply, or contains itself") from None
    except UnicodeEncodeError:
        encoded = _encode(_without_surrogates(msgspec.to_builtins(value, enc_hook=foreign.to_builtins)))
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BadResult(_advice(value, error)) from None
    if nan_as_null and b"null" in encoded and _has_nan(value):
        raise BadResult("the result holds NaN or an infinite number, which JSON cannot express")
    return encoded


def _hides_nan(schema: Any) -> bool:
    """Whether a NaN, which is encoded as null, would pass for a value of the schema: where a number may be null, and
    where anything may stand. Elsewhere it is refused like any null.
    """
    if not isinstance(schema, dict):
        return False
    kinds = {option.get("type") for option in schema.get("anyOf", ())}
    open_ended = not schema.keys() & _TYPED or (
        schema.get("type") in ("object", "array") and not schema.keys() & _CLOSED
    )
    children = (
        *schema.get("properties", {}).values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", ()),
    )
    more = (schema.get("items"), schema.get("additionalProperties"), *schema.get("prefixItems", ()))
    return {"number", "null"} <= kinds or open_ended or any(map(_hides_nan, (*children, *more)))


_TYPED = {"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"}
_CLOSED = {"properties", "items", "prefixItems", "additionalProperties"}


def _advice(value: Any, error: Exception) -> str:
    if isinstance(value, Iterator | AsyncIterator):
        return "the result is a generator or another iterator: return a list of what it yields"
    return f"the result cannot be sent: {error}"


def _name(value: Any) -> str:
    return f"a value of type {type(value).__name__}"


def _without_surrogates(value: Any) -> Any:
    from mcpkit.protocol.jsonrpc import scrub

    return scrub(value)


def _has_nan(value: Any) -> bool:
    builtins = msgspec.to_builtins(value, builtin_types=(), enc_hook=foreign.to_builtins)
    pending = [builtins]
    while pending:
        item = pending.pop()
        if isinstance(item, float) and not (float("-inf") < item < float("inf")):
            return True
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            pending += item
    return False


# -- What the return annotation promises -------------------------------------------------


def _plain(hint: Any) -> Any:
    """The type itself, behind `Annotated`, NewType and aliases."""
    while True:
        hint = unwrap(hint)
        if typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def _without_questions(hint: Any) -> Any:
    """What is left of a return type without `InputRequired`, which is no result."""
    members = union_members(_plain(hint))
    if InputRequired not in members:
        return hint
    left = [member for member in members if member is not InputRequired]
    return typing.Union[tuple(left)] if left else MISSING  # noqa: UP007


def _is_structured(hint: Any) -> bool:
    """Whether values of the type, which is no union, are structure: no text, no content, no ToolResult."""
    hint = _plain(hint)
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if inspect.isclass(origin) and issubclass(origin, _LISTS) and not issubclass(origin, _KEYED):
        return not any(_mentions_content(argument) for argument in arguments)
    if not inspect.isclass(origin) or issubclass(origin, enum.Enum):
        return True
    return not (issubclass(origin, str | ToolResult) or is_block_type(origin))


_LISTS = (Collection, Iterable, tuple)
_KEYED = (dict, str, bytes)


def _mentions_content(hint: Any) -> bool:
    hint = _plain(hint)
    return is_block_type(hint) or any(_mentions_content(argument) for argument in typing.get_args(hint))


def _holds_content(value: Any) -> bool:
    """Whether it is a block, or a list of blocks or of blocks and strings."""
    if not isinstance(value, list | tuple):
        return is_block(value) and not isinstance(value, str)
    return all(is_block(item) for item in value) and not all(isinstance(item, str) for item in value)


def _describe(returns: Any) -> Schema:
    origin = typing.get_origin(returns) or returns
    if inspect.isclass(origin) and issubclass(origin, _STREAMS):
        raise TypeError("its result is a generator, which has no JSON form. Return a list of what it yields.")
    try:
        return output_schema(returns)
    except Unrepresentable as error:
        advice = error.advice
        if error.is_unknown:
            advice += ", return a str, or leave the annotation out"
        raise TypeError(f"its result has type {error.kind}, which has no JSON form. {advice}.") from None


def _decoder(returns: Any) -> Any:
    try:
        return msgspec.json.Decoder(returns, dec_hook=foreign.from_builtins).decode
    except (TypeError, ValueError) as error:
        raise TypeError(f"its result {undecodable(error)}") from None


def _nothing(encoded: bytes) -> None:
    """No type was declared, so there is nothing to check."""


def _refuse(encoded: bytes) -> None:
    """Only text and content were declared."""
    raise ValueError("it is declared as text or content, and is neither")
