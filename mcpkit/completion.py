"""Completion of prompt arguments and template variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mcpkit.content import plain
from mcpkit.handler import Handler
from mcpkit.protocol.types import Completion
from mcpkit.signature import Parameter, Signature, Values

MOST = 100
"""Values in one answer (CMP-03)."""


class Completer(NamedTuple):
    """What completes one argument: the user's function, or fixed choices."""

    handler: Handler | None
    choices: tuple[str, ...]

    def values(self, partial: str, known: Mapping[str, str]) -> Values:
        """What to call the function with: what is typed so far and, if it wants them, the arguments that have
        a value.
        """
        assert self.handler is not None
        names = [parameter.name for parameter in self.handler.signature.parameters]
        return dict(zip(names, (partial, dict(known)), strict=False))

    def matching(self, partial: str) -> list[str]:
        """The choices that begin with what is typed so far, whatever its case."""
        return [choice for choice in self.choices if choice.casefold().startswith(partial.casefold())]


def completers(signature: Signature) -> dict[str, Completer]:
    """For each parameter that something completes: what does. Raises TypeError for a function that cannot be
    called so.
    """
    found = {parameter.name: _completer(parameter) for parameter in signature.parameters}
    return {name: completer for name, completer in found.items() if completer is not None}


def _completer(parameter: Parameter) -> Completer | None:
    if parameter.complete is not None:
        handler = _handler(parameter.complete.fn, parameter.name)
        if not 1 <= len(handler.signature.parameters) <= 2:
            raise TypeError(
                f"the completion of '{parameter.name}' takes what is typed so far, and optionally the other arguments."
            )
        return Completer(handler, ())
    choices = tuple(_choices(parameter.schema))
    return Completer(None, choices) if choices else None


def _handler(fn: Any, name: str) -> Handler:
    try:
        handler = Handler(fn, yields=True)
        handler.resolve()
    except TypeError as error:
        raise TypeError(f"the completion of '{name}': {error}") from None
    return handler


def _choices(schema: Mapping[str, Any]) -> Iterable[str]:
    """Enums, Literals and bools complete by themselves."""
    if schema.get("type") == "boolean":
        return ("true", "false")
    return (str(value) for value in schema.get("enum", ()) if value is not None)


def cut(values: Any) -> Completion:
    """The first of what a completion function returned. Raises TypeError when it is no iterable of strings."""
    found = [] if values is None else [plain(value) for value in values]
    if isinstance(values, str) or not all(isinstance(value, str) for value in found):
        raise TypeError("a completion returns a list of strings")
    return Completion(found[:MOST], len(found), len(found) > MOST)
