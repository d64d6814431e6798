"""What is checked when something is registered or made, so that the traceback points at the line of the user."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import msgspec

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_wire(wire: Any) -> Any:
    """`wire`, an object of the protocol, as it is. Raises TypeError for a field of the wrong type: one
    message that a client cannot read may cost it a whole list.
    """
    try:
        members = msgspec.to_builtins(wire, builtin_types=(bytes,))
        msgspec.convert(members, type(wire), builtin_types=(bytes,))
    except TypeError as error:
        raise TypeError(f"it holds what has no JSON form: {error}") from None
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        raise TypeError(f"{place.rstrip('`')}: {problem[:1].lower()}{problem[1:]}") from None
    return wire


def check_options(name: Any, timeout: Any, meta: Any) -> None:
    """Raise TypeError or ValueError for an option that no function can have."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"its name is a string, not {name!r}.")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
    ):
        raise ValueError(f"timeout= is a number of seconds above 0, not {timeout!r}.")
    if meta is not None and not (isinstance(meta, dict) and all(isinstance(key, str) for key in meta)):
        raise TypeError("meta= is a dict with strings as keys.")


def is_tool_name(name: str) -> bool:
    """Whether clients can call a tool of this name."""
    return _TOOL_NAME.fullmatch(name) is not None


def check_tool_name(name: str) -> None:
    """Raise ValueError for a name that no client could call; warn of one that some cannot.

    Source: MCP 2025-11-25, "Tool Names"; the narrower rule is that of the model APIs behind the clients.
    """
    if not is_tool_name(name):
        raise ValueError(
            "a tool's name is 1 to 128 letters, digits, '_', '-' and '.': give it another with name="
        )
    if not _SAFE_NAME.fullmatch(name):
        warnings.warn(
            f"tool {name!r}: some clients rename or drop tools whose names are longer than 64 characters or hold a dot",
            stacklevel=_user_level(),
        )


def _user_level() -> int:
    """The level of the first caller outside this package, for warnings."""
    frame = inspect.currentframe()
    level = 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mcpkit":
        frame, level = frame.f_back, level + 1
    return level


def check_root(schema: Any) -> None:
    """Raise ValueError for a hand-written input schema that clients would refuse; warn of one that some drop."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ValueError('input_schema needs "type": "object" at its root')
    if schema.keys() & {"anyOf", "oneOf"}:
        warnings.warn(
            "input_schema has anyOf or oneOf at its root: Claude Code drops such a tool",
            stacklevel=_user_level(),
        )


def check_uri(uri: str) -> None:
    """Raise ValueError for what is no absolute URI."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
        raise ValueError("a resource's URI starts with a scheme, like 'docs://'")
