"""Types as users write them, and the schemas that they have."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Annotated, Any, Generic, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import attrs
import msgspec
from clients.peer import described

from mcpkit import Param

Schema = dict[str, Any]
T = TypeVar("T")

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
NULL = {"type": "null"}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """How loud."""

    HIGH = 2
    LOW = 1


class Kind(enum.StrEnum):
    BIG = enum.auto()


class Point(msgspec.Struct):
    x: int
    y: int = 0
    label: str | None = None


class Named(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A thing with a name."""

    full_name: Annotated[str, Param("Both names.")]
    tags: list[str] = msgspec.field(default_factory=list)
    extra: int | msgspec.UnsetType = msgspec.UNSET


class Positional(msgspec.Struct, array_like=True):
    x: int
    y: int = 0


class Cat(msgspec.Struct, tag="cat", tag_field="kind"):
    lives: int


class Dog(msgspec.Struct, tag="dog", tag_field="kind"):
    name: str = "Rex"


class Numbered(msgspec.Struct, tag=1):
    a: int


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = msgspec.field(default_factory=list)
    parent: Tree | None = None


class Even(msgspec.Struct):
    odd: Odd | None = None


class Odd(msgspec.Struct):
    even: Even | None = None


class Box(msgspec.Struct, Generic[T]):
    item: T
    more: list[T] = msgspec.field(default_factory=list)


class IntBox(Box[int]):
    extra: str = ""


@dataclasses.dataclass
class Data:
    a: int
    b: list[Point] = dataclasses.field(default_factory=list)
    c: str | None = None


@dataclasses.dataclass
class DataBox(Generic[T]):
    """Holds one."""

    item: T


@attrs.define
class Attrs:
    a: int
    b: str = "x"
    c: list[int] = attrs.Factory(list)
    hidden: int = attrs.field(init=False, default=1)


class Typed(TypedDict):
    a: int
    b: NotRequired[str]


class Partial(TypedDict, total=False):
    a: typing.Required[int]
    b: Annotated[str, Param("Second.")]


class Pair(NamedTuple):
    a: int
    b: str = "x"


UserId = NewType("UserId", int)

POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {"type": "integer", "default": 0}, "label": STRING},
    "required": ["x"],
}
POINT_OUT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": INTEGER, "label": {"anyOf": [STRING, NULL]}},
    "required": ["x"],
}
CAT = {
    "type": "object",
    "properties": {"kind": {"type": "string", "const": "cat"}, "lives": INTEGER},
    "required": ["kind", "lives"],
}
DATA_BOX = {"type": "object", "properties": {"item": {}}, "required": ["item"], "description": "Holds one."}
PAIR = {"type": "array", "minItems": 1, "maxItems": 2, "prefixItems": [INTEGER, STRING], "items": False}


def parameter(hint: Any, *default: Any) -> Schema:
    """The schema of a parameter of this type."""

    def fn(x: Any) -> None: ...

    fn.__annotations__ = {"x": hint}
    fn.__defaults__ = default
    schema = described(fn).input_schema
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return schema["properties"]["x"] | definitions


def result(hint: Any) -> Schema | None:
    """The output schema of a tool that returns this type."""

    def fn() -> None: ...

    fn.__annotations__ = {"return": hint}
    return described(fn).output_schema
