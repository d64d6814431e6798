"""Type hints as they are meant: forward references, classes local to a function, generics.

Rule 1. A name that cannot be resolved raises NameError, so that callers can try again when more of the script
        has run.
Rule 2. `from __future__ import annotations` turns the hints of a class that is local to a function into
        strings that only that function's frame can resolve, and msgspec looks at modules alone. So such a
        class gets its resolved hints written back (`settle`).
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

Namespace = dict[str, Any]


def innermost(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that was written: behind partials, decorators that use `functools.wraps`, methods and
    callable objects.
    """
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif (wrapped := getattr(fn, "__wrapped__", None)) is not None:
            fn = wrapped
        elif inspect.ismethod(fn):
            fn = fn.__func__
        elif not inspect.isroutine(fn) and not inspect.isclass(fn):
            fn = type(fn).__call__
        else:
            return fn


def enclosing_frames(fn: Callable[..., Any]) -> list[types.FrameType]:
    """The running functions that `fn` was written inside, innermost first: their local names may stand in its
    hints.
    """
    parts = getattr(innermost(fn), "__qualname__", "").split(".<locals>.")[:-1]
    ancestors = {".<locals>.".join(parts[: n + 1]) for n in range(len(parts))}
    found: list[types.FrameType] = []
    frame = sys._getframe(1) if ancestors else None
    while frame is not None:
        if frame.f_code.co_qualname in ancestors and frame.f_globals is getattr(
            innermost(fn), "__globals__", None
        ):
            found.append(frame)
        frame = frame.f_back
    return found


def function_hints(fn: Callable[..., Any], namespace: Namespace) -> dict[str, Any]:
    """The hints of a function, `Annotated` kept. Raises NameError."""
    written = innermost(fn)
    hints = typing.get_type_hints(written, localns=_closure(written) | namespace, include_extras=True)
    for hint in hints.values():
        settle(hint, namespace)
    return hints


def _closure(fn: Callable[..., Any]) -> Namespace:
    names: tuple[str, ...] = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    cells = getattr(fn, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=False) if _filled(cell)}


def _filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def settle(hint: Any, namespace: Namespace) -> None:
    """Write resolved hints into the classes that `hint` mentions, directly or through their fields, where the
    hints are strings which only `namespace` resolves. Raises NameError.
    """
    seen: set[type] = set()
    pending = [hint]
    while pending:
        for cls in _classes(pending.pop()):
            if cls not in seen:
                seen.add(cls)
                pending += _settle_class(cls, namespace).values()


def _settle_class(cls: type, namespace: Namespace) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError:
        if not namespace:
            raise
    for base in cls.__mro__:
        own = inspect.get_annotations(base)
        if any(isinstance(hint, str | typing.ForwardRef) for hint in own.values()):
            resolved = typing.get_type_hints(
                base, localns=namespace | {cls.__name__: cls}, include_extras=True
            )
            base.__annotations__ = {name: resolved[name] for name in own}
    return typing.get_type_hints(cls, include_extras=True, localns=namespace)


def _classes(hint: Any) -> Iterator[type]:
    """The classes with hints of their own that `hint` mentions."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return
    for candidate in (hint, origin):
        if inspect.isclass(candidate) and has_fields(candidate):
            yield candidate
    for argument in typing.get_args(hint):
        yield from _classes(argument)
    value = getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)
    if value is not None and value is not hint:
        yield from _classes(value) if not _is_alias(hint) else ()


def has_fields(cls: type) -> bool:
    """Whether msgspec reads the hints of `cls`: a Struct, dataclass, attrs class, TypedDict or NamedTuple."""
    if (
        hasattr(cls, "__struct_fields__")
        or hasattr(cls, "__dataclass_fields__")
        or hasattr(cls, "__attrs_attrs__")
    ):
        return True
    return typing.is_typeddict(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def _is_alias(hint: Any) -> bool:
    """A `type X = …` statement (Python 3.12); it may be recursive, so it is not looked into here."""
    return type(hint).__name__ == "TypeAliasType"


def class_hints(cls: Any) -> dict[str, Any]:
    """The hints of a class, inherited ones included; type variables are bound as the (possibly parametrized)
    `cls` binds them.
    """
    origin = typing.get_origin(cls) or cls
    bound = _bindings(cls, {})
    hints: dict[str, Any] = {}
    for base in reversed(origin.__mro__):
        own = inspect.get_annotations(base) if base.__module__ != "builtins" else {}
        if own:
            resolved = typing.get_type_hints(base, include_extras=True)
            hints.update(
                {name: substitute(resolved[name], bound.get(base, {})) for name in own if name in resolved}
            )
    return hints or typing.get_type_hints(origin, include_extras=True)


def _bindings(cls: Any, outer: dict[Any, Any]) -> dict[Any, dict[Any, Any]]:
    """For each generic class in the bases of `cls`: what its type variables stand for."""
    origin = typing.get_origin(cls) or cls
    arguments = tuple(substitute(argument, outer) for argument in typing.get_args(cls))
    mine = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
    bound = {origin: mine}
    for base in getattr(origin, "__orig_bases__", ()):
        if typing.get_origin(base) not in (None, typing.Generic):
            bound.update(_bindings(base, mine))
    return bound


def substitute(hint: Any, bound: dict[Any, Any]) -> Any:
    """`hint` with type variables replaced."""
    if not bound:
        return hint
    if isinstance(hint, typing.TypeVar):
        return bound.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or inspect.isclass(hint):
        return hint
    return hint[tuple(bound.get(parameter, parameter) for parameter in parameters)]


# -- Wrappers and unions -----------------------------------------------------------------

_WRAPPERS = (typing.Final, typing.ClassVar, typing.Required, typing.NotRequired)


def unwrap(hint: Any) -> Any:
    """Without the wrappers that JSON does not see: NewType, Final, Required and the like."""
    while True:
        if typing.get_origin(hint) in _WRAPPERS or "ReadOnly" in str(typing.get_origin(hint)):
            hint = typing.get_args(hint)[0]
        elif (supertype := getattr(hint, "__supertype__", None)) is not None:
            hint = supertype
        else:
            return hint


def without_none(hint: Any) -> Any:
    """`T` for `T | None`, `Annotated[T, …]` for `Annotated[T | None, …]`; `hint` itself where there is no
    None.
    """
    if typing.get_origin(hint) is typing.Annotated:
        inner, *metadata = typing.get_args(hint)
        rest = without_none(inner)
        return hint if rest is inner else typing.Annotated[(rest, *metadata)]
    members = union_members(hint)
    if None not in members or len(members) == 1:
        return hint
    return typing.Union[tuple(member for member in members if member is not None)]  # noqa: UP007 - at run time


def bounds_inside(hint: Any) -> Any:
    """`hint` as msgspec takes it: bounds on a union (`Annotated[int | None, Param(ge=1)]`) go to the members
    that they bind.
    """
    if typing.get_origin(hint) is not typing.Annotated:
        return hint
    inner, *metadata = typing.get_args(hint)
    options = union_members(inner)
    if len(options) < 2:
        return hint
    bound = [typing.Annotated[(option, *metadata)] for option in options if option is not None]
    return typing.Union[(*bound, *([None] if None in options else []))]  # built at run time


def union_members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, None as None; a hint that is no union is its own only member."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = typing.get_args(hint) if is_union else (hint,)
    return tuple(None if member is type(None) else member for member in members)
