"""What a tool's return value becomes: content, and structure that fits the schema that was listed.

Rule 1. Structure is encoded once and decoded again as the declared type before it is sent: a value that does
        not fit is an error result, never a message that the client cannot use.
Rule 2. The text block is the JSON of the value itself, compact, in every revision; wrapping it is the
        revision's business.
"""

from __future__ import annotations

import inspect
import types as python_types
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from mcpkit import foreign, validation
from mcpkit.content import Block, ToolResult, blocks
from mcpkit.protocol import types
from mcpkit.schema import MISSING, Schema, Unrepresentable, output_schema

_encode = msgspec.json.Encoder(enc_hook=foreign.to_builtins).encode
_PLAIN = (str, ToolResult, type(None))
_STREAMS = (Generator, AsyncGenerator, AsyncIterator)


class BadResult(ValueError):
    """A tool returned what cannot be sent; the message says why."""


class Output:
    """How the values of one tool are sent. `schema` is None where the declared type promises no structure.

    `given` is a hand-written schema. Raises TypeError for a return type without a JSON form.
    """

    def __init__(self, returns: Any, given: Schema | None = None) -> None:
        if given is not None:
            self.schema: Schema | None = given
            self._check = validation.checker(given)
        elif returns is MISSING or returns is Any or not _is_structured(returns):
            self.schema, self._check = None, _nothing
        else:
            self.schema, self._check = _describe(returns), _decoder(returns)
        self._silent = returns is None or returns is type(None)
        self._content = self.schema is None and returns is not MISSING and returns is not Any
        self.wrap = self.schema is not None and self.schema.get("type") != "object"

    def convert(self, value: Any) -> types.CallToolResult:
        """The result for what the tool returned. Raises `BadResult`."""
        if isinstance(value, ToolResult):
            return self._explicit(value)
        if self.schema is None:
            if (
                value is None
                or isinstance(value, str | Block)
                or _is_content(value)
                or (self._content and value == [])
            ):
                return types.CallToolResult(content=blocks(value))
            if self._silent:
                raise BadResult(f"the tool is declared to return None, and returned {_name(value)}")
        structured = self._structure(value)
        return types.CallToolResult(
            content=[types.TextContent(structured.decode())], structured_content=Raw(structured)
        )

    def _explicit(self, result: ToolResult) -> types.CallToolResult:
        structured: Raw | msgspec.UnsetType = UNSET
        if result.has_structured:
            structured = Raw(
                self._structure(result.structured) if not result.is_error else encode(result.structured)
            )
        elif self.schema is not None and not result.is_error:
            raise BadResult("the tool has an output schema, so its ToolResult needs structured=")
        return types.CallToolResult(
            content=blocks(result.content),
            structured_content=structured,
            is_error=result.is_error,
            meta=result.meta,
        )

    def _structure(self, value: Any) -> bytes:
        encoded = encode(value)
        try:
            self._check(encoded)
        except ValueError as error:
            raise BadResult(f"the result does not fit its declared type: {error}") from None
        return encoded


def encode(value: Any) -> bytes:
    """Compact JSON. Raises `BadResult` where there is none, or where it would lose something: NaN would
    become null.
    """
    try:
        encoded = _encode(value)
    except RecursionError:
        raise BadResult("the result is nested too deeply, or contains itself") from None
    except UnicodeEncodeError:
        return _encode(_without_surrogates(msgspec.to_builtins(value, enc_hook=foreign.to_builtins)))
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BadResult(_advice(value, error)) from None
    if b"null" in encoded and _has_nan(value):
        raise BadResult("the result holds NaN or an infinite number, which JSON cannot express")
    return encoded


def _advice(value: Any, error: Exception) -> str:
    if isinstance(value, Generator | AsyncIterator):
        return "the tool returned a generator: return a list of what it yields"
    return f"{_name(value)} cannot be sent: {error}"


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


def _is_structured(hint: Any) -> bool:
    """Whether every value of the type is structure: no text, no content, no ToolResult, and not None alone."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, python_types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        return all(_is_structured(member) for member in members)
    if inspect.isclass(origin) and issubclass(origin, list | tuple | set) and arguments:
        return not any(_mentions_content(argument) for argument in arguments)
    return origin is not None and not (inspect.isclass(origin) and issubclass(origin, (*_PLAIN, Block)))


def _mentions_content(hint: Any) -> bool:
    if inspect.isclass(hint):
        return issubclass(hint, Block)
    return any(_mentions_content(argument) for argument in typing.get_args(hint))


def _is_content(value: Any) -> bool:
    """A list of blocks, or of blocks and strings; a list of strings alone is structure."""
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(item, Block) for item in value) and all(
        isinstance(item, str | Block) for item in value
    )


def _describe(returns: Any) -> Schema:
    origin = typing.get_origin(returns) or returns
    if inspect.isclass(origin) and issubclass(origin, _STREAMS):
        raise TypeError("its result is a generator, which has no JSON form. Return a list of what it yields.")
    try:
        return output_schema(returns)
    except Unrepresentable as error:
        raise TypeError(
            f"its result has type {error.kind}, which has no JSON form. {error.advice}, return a str, "
            "or leave the annotation out."
        ) from None


def _decoder(returns: Any) -> Any:
    try:
        return msgspec.json.Decoder(returns, dec_hook=foreign.from_builtins).decode
    except (TypeError, ValueError) as error:
        raise TypeError(f"its result cannot be checked: {error}") from None


def _nothing(encoded: bytes) -> None:
    """No type was declared, so there is nothing to check."""
