"""A server with a tool for every type that a parameter can have; each returns what it is given."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic

from mcpkit import App, Complete, Message, Param, user


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Point(msgspec.Struct):
    x: int
    y: float = 0.5


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square"):
    side: int


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


@dataclass
class Order:
    items: list[Point]
    note: str | None = None


class Options(TypedDict, total=False):
    depth: int
    colour: Colour


class Pair(NamedTuple):
    first: int
    second: str = "s"


@attrs.define
class Box:
    width: int
    labels: dict[str, str] = attrs.field(factory=dict)


class Person(pydantic.BaseModel):
    name: str
    age: int = 0


TYPES: dict[str, Any] = {
    "any": Any,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "bytes": bytes,
    "none": None,
    "list": list[int],
    "bare_list": list,
    "tuple": tuple[int, str],
    "long_tuple": tuple[float, ...],
    "set": set[str],
    "dict": dict[str, int],
    "int_keys": dict[int, str],
    "literal": Literal["a", "b", 1],
    "enum": Colour,
    "int_enum": Size,
    "struct": Point,
    "tagged": Circle | Square,
    "tree": Tree,
    "dataclass": Order,
    "typed_dict": Options,
    "named_tuple": Pair,
    "attrs": Box,
    "pydantic": Person,
    "datetime": datetime.datetime,
    "date": datetime.date,
    "time": datetime.time,
    "timedelta": datetime.timedelta,
    "uuid": uuid.UUID,
    "decimal": decimal.Decimal,
    "bounded": Annotated[int, Param(ge=1, le=7)],
    "pattern": Annotated[str, Param(pattern="^a+$", max_length=5)],
    "optional": int | None,
    "optional_str": str | None,
    "str_or_list": str | list[str],
    "int_or_bool": int | bool,
    "number_or_struct": float | Point | None,
    "nested": dict[str, list[Order | None]],
}

app = App("anything", instructions="Try.")


def _giving_back(hint: Any) -> Any:
    async def give_back(value: Any) -> Any:
        return value

    give_back.__annotations__ = {"value": hint, "return": hint}
    return give_back


for name, hint in TYPES.items():
    app.add_tool(_giving_back(hint), name=name)


@app.tool
def many(a: int, b: list[Point], c: Colour = Colour.RED, d: bool | None = None) -> str:
    return f"{a} {b} {c} {d}"


@app.resource("anything://fixed")
async def fixed() -> bytes:
    return b"\x00\xff"


@app.resource("anything://{number}/{colour}")
async def template(number: int, colour: Colour) -> dict[str, Any]:
    return {"number": number, "colour": colour}


Shade = Annotated[str, Complete(lambda partial: [partial + "a"] * 200)]


@app.prompt
async def poem(lines: int, colour: Shade = "red") -> list[Message]:
    return [user(colour)] * min(lines, 5)
