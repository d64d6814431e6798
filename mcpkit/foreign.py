"""Types of other libraries: pydantic models and numpy's arrays and scalars, known by their methods and never
imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeGuard


def is_model(cls: Any) -> TypeGuard[Any]:
    """Whether `cls` is a pydantic model (version 2)."""
    return isinstance(cls, type) and hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate")


def is_pydantic_field(value: Any) -> bool:
    """Whether `value` is what pydantic's `Field(…)` returns."""
    return type(value).__name__ == "FieldInfo" and type(value).__module__.startswith("pydantic")


def from_builtins(cls: Any, value: Any) -> Any:
    """Msgspec's `dec_hook`. Raises ValueError in terms of the model's fields, without the values that were
    sent.
    """
    if cls is object:
        return value
    if not is_model(cls):
        raise NotImplementedError(f"{cls} has no JSON form")
    try:
        return cls.model_validate(value)
    except ValueError as error:
        raise ValueError(_problems(error)) from None


def to_builtins(value: Any) -> Any:
    """Msgspec's `enc_hook`. Raises TypeError for a value without a JSON form."""
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    for base, plain in _PLAIN.items():
        if isinstance(value, base):
            return plain(value)
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes,
}
"""What a value of a subclass of a builtin type is in itself; msgspec takes only the builtin types."""


class Models:
    """The two hooks for one value, with pydantic models taken to be valid: what was written from a model is
    not validated again. `found` tells whether there were any.
    """

    def __init__(self) -> None:
        self._written: deque[Any] = deque()
        self.found = False

    def to_builtins(self, value: Any) -> Any:
        """`enc_hook`."""
        plain = to_builtins(value)
        if is_model(type(value)):
            self._written.append(plain)
        return plain

    def from_builtins(self, cls: Any, value: Any) -> Any:
        """`dec_hook`. Models are read in the order in which they were written."""
        if is_model(cls) and self._written and self._written[0] == value:
            self._written.popleft()
            self.found = True
            return cls.model_construct()
        return from_builtins(cls, value)


def _problems(error: Any) -> str:
    if not hasattr(error, "errors"):
        return str(error)
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"`{'.'.join(map(str, item['loc']))}`: {item['msg']}" if item["loc"] else item["msg"]
        for item in details
    )


def model_schema(cls: Any, *, output: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a model in our shape: in-lined, no generated titles. What contains itself goes into
    `definitions`.
    """
    schema = cls.model_json_schema(mode="serialization" if output else "validation")
    nested = schema.pop("$defs", {})
    shaped = _shape(schema, nested, definitions, (), output)
    assert isinstance(shaped, dict)
    return shaped


def _shape(
    node: Any, nested: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...], output: bool
) -> Any:
    if isinstance(node, list):
        return [_shape(item, nested, definitions, inside, output) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        rest = {key: value for key, value in node.items() if key != "$ref"}
        if name in inside or _contains_itself(name, nested):
            if name not in definitions:
                definitions[name] = {}  # known from here on, so that the walk ends
                definitions[name] = _shape(nested[name], nested, definitions, (*inside, name), output)
            return {"$ref": f"#/$defs/{name}", **rest}
        return _shape({**nested[name], **rest}, nested, definitions, (*inside, name), output)
    shaped = {
        key: value for key, value in node.items() if key not in _DROPPED and not (output and key == "default")
    }
    for key in shaped.keys() - _VALUES:
        shape = _properties if key == "properties" else _shape
        shaped[key] = shape(node[key], nested, definitions, inside, output)
    return shaped


_DROPPED = {"title", "discriminator"}
"""Generated titles, and what refers to definitions that are in-lined."""

_VALUES = {"default", "examples", "enum", "const", "required"}
"""Keywords that hold values, not schemas."""


def _properties(
    members: dict[str, Any], nested: Any, definitions: Any, inside: tuple[str, ...], output: bool
) -> dict[str, Any]:
    return {
        name: _shape(member if output else _without_null(member), nested, definitions, inside, output)
        for name, member in members.items()
    }


def _without_null(member: Any) -> Any:
    """`x: T | None = None` as plain T that may be left out."""
    if not isinstance(member, dict) or member.get("default", ...) is not None or "anyOf" not in member:
        return member
    options = [option for option in member["anyOf"] if option != {"type": "null"}]
    rest = {key: value for key, value in member.items() if key not in ("anyOf", "default")}
    return {**options[0], **rest} if len(options) == 1 else {"anyOf": options, **rest}


def _contains_itself(name: str, nested: dict[str, Any]) -> bool:
    seen: set[str] = set()
    pending = [nested[name]]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            target = str(node.get("$ref", "")).rpartition("/")[2]
            if target == name:
                return True
            if target and target not in seen:
                seen.add(target)
                pending.append(nested[target])
            pending += [value for value in node.values() if isinstance(value, dict | list)]
    return False
