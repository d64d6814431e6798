"""The variant `full` of the golden corpus's reference server (`fixtures/README.md`).

Run it with `mcpkit run tests/corpus/reference.py:full`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import trio

from mcpkit import (
    Annotations,
    App,
    Audio,
    Cache,
    Complete,
    Context,
    EmbeddedResource,
    Icon,
    Image,
    McpError,
    Message,
    NotFound,
    Param,
    PromptResult,
    ResourceLink,
    Text,
    ToolError,
    ToolResult,
    assistant,
    user,
)

ICON = Icon("https://example.com/icon.png", mime_type="image/png", sizes=["48x48"])
MOMENT = "2026-01-02T03:04:05Z"
ANNOTATIONS = Annotations(audience=("user",), priority=0.5, last_modified=MOMENT)
META = {"example.com/owner": "docs"}
GREETING = "Hello, wörld!"
BYTES = b"\x00\x01\x02\xff"

BLOCKS = {
    "text": Text("plain", ANNOTATIONS),
    "image": Image(b"\x89PNG", "image/png", Annotations(audience=("assistant",), priority=0.25)),
    "audio": Audio(b"RIFF", "audio/wav", Annotations(audience=("user", "assistant"), last_modified=MOMENT)),
    "link": ResourceLink(
        "text://greeting",
        "greeting",
        title="Greeting",
        description="A friendly text.",
        mime_type="text/plain",
        size=14,
        annotations=Annotations(priority=0.75),
    ),
    "resource": EmbeddedResource(
        "text://greeting", text=GREETING, mime_type="text/plain", annotations=ANNOTATIONS
    ),
    "blob": EmbeddedResource("blob://bytes", blob=BYTES, mime_type="application/octet-stream"),
}

CITIES = {"france": ["lyon", "paris"], "norway": ["bergen", "oslo", "trondheim"]}
LANGUAGES = [f"lang-{number:03}" for number in range(150)]

full = App(
    "reference",
    "1.2.3",
    title="Reference server",
    description="Answers the golden corpus.",
    instructions="Call echo first.",
    website_url="https://example.com/reference",
    icons=[ICON],
)


# -- tools ---------------------------------------------------------------------------------------------


class Box(msgspec.Struct):
    width: float
    height: int


class Measurement(msgspec.Struct):
    label: str
    box: Box
    note: str | None
    unit: str = "cm"


class Item(msgspec.Struct):
    sku: str
    quantity: Annotated[int, msgspec.Meta(ge=1, le=99)] = 1


class Address(msgspec.Struct):
    street: str
    city: str
    zip: str | None = None


class Caller(msgspec.Struct):
    revision: str
    client: str | None


@full.tool
def echo(text: Annotated[str, Param("The text to return.")]) -> str:
    """Return the text unchanged."""
    return text


@full.tool
def add(first: Annotated[int, Param("The first number.")], second: int = 1) -> int:
    """Add two integers."""
    return first + second


@full.tool
def measure(label: str) -> Measurement:
    """Measure a thing."""
    return Measurement(label, Box(2.5, 4), None)


@full.tool
def stock(sku: str) -> int | None:
    """How many are in stock, if that is known."""
    return 3 if sku == "A1" else None


@full.tool
def readings() -> list[float]:
    """The latest readings."""
    return [0.5, 1.25]


@full.tool
def order(
    items: Annotated[list[Item], Param("What to order.")],
    address: Address,
    shipping: Literal["standard", "express", "drone"] = "standard",
    gift: bool = False,
    weight: float | None = None,
    labels: dict[str, str] | None = None,
) -> str:
    """Order items."""
    parts = [f"{sum(item.quantity for item in items)} to {address.city} by {shipping}"]
    if gift:
        parts.append("gift")
    if weight is not None:
        parts.append(f"{weight} kg")
    parts += [f"{key}={value}" for key, value in (labels or {}).items()]
    return ", ".join(parts)


@full.tool
def blocks(kind: Literal["text", "image", "audio", "link", "resource", "blob", "all"]) -> Any:
    """Return content blocks of one kind."""
    return list(BLOCKS.values()) if kind == "all" else BLOCKS[kind]


@full.tool(
    title="Described tool",
    icons=[ICON],
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
    meta=META,
)
def described() -> str:
    """Has everything that a tool can carry."""
    return "described"


@full.tool(title="Titled tool")
def titled() -> str:
    """Has a title and no annotations."""
    return "titled"


@full.tool
def outcome(kind: Literal["object", "list", "error"]) -> ToolResult:
    """Return a result that is written out in full."""
    if kind == "object":
        return ToolResult([Text("two")], structured={"count": 2}, meta={"example.com/trace": "abc"})
    if kind == "list":
        return ToolResult([Text("list")], structured=[1, 2])
    return ToolResult([Text("not enough")], structured={"missing": 3}, is_error=True)


@full.tool
def nothing() -> None:
    """Return nothing."""


@full.tool
async def whoami(ctx: Context) -> Caller:
    """Tell the revision and the client of this request."""
    return Caller(ctx.revision, ctx.client.name if ctx.client else None)


@full.tool
async def count(ctx: Context, steps: int = 2) -> str:
    """Report progress, step by step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "counted"


@full.tool
async def stumble(ctx: Context) -> str:
    """Report progress that does not always increase."""
    for progress in (1, 1, 0.5, 2.5):
        await ctx.report_progress(progress)
    return "stumbled"


@full.tool
async def chatter(ctx: Context) -> str:
    """Log at several levels."""
    await ctx.log("debug", "checking")
    await ctx.log("info", "started")
    await ctx.log("warning", {"left": 2}, logger="stock")
    await ctx.log("error", "failed", logger="stock")
    return "said"


@full.tool
async def hang() -> str:
    """Wait until the request is cancelled."""
    await trio.sleep_forever()
    return "never"


@full.tool
def sold_out() -> str:
    """Fail with a text for the model."""
    raise ToolError("A1 is sold out")


@full.tool
def crash() -> str:
    """Fail with an unexpected exception."""
    raise RuntimeError("the password is hunter2")


@full.tool
def misreport() -> int:
    """Return a value that does not fit the output schema."""
    return "three"  # type: ignore[return-value]


@full.tool
def refuse(code: int) -> str:
    """Fail with a protocol error."""
    raise McpError(code, "refused", {"reason": "corpus"})


# -- resources -----------------------------------------------------------------------------------------


@full.resource(
    "text://greeting",
    title="Greeting",
    mime_type="text/plain",
    size=14,
    annotations=ANNOTATIONS,
    icons=[ICON],
    meta=META,
)
def greeting() -> str:
    """A friendly text."""
    return GREETING


@full.resource("data://config", mime_type="application/json")
def config() -> dict[str, Any]:
    """The configuration."""
    return {"debug": False, "limit": 1.5, "name": "reference"}


@full.resource("blob://bytes", name="bytes", mime_type="application/octet-stream")
def four_bytes() -> bytes:
    """Four bytes."""
    return BYTES


@full.resource("cached://menu", mime_type="text/plain", cache=Cache(ttl=60.0, scope="public"))
def menu() -> str:
    """May be cached for a minute."""
    return "soup"


@full.resource("item://0", mime_type="text/plain")
def item_zero() -> str:
    """Also matches a template."""
    return "the exact one"


@full.resource("fail://broken", name="broken", mime_type="text/plain")
def broken_resource() -> str:
    """Cannot be read."""
    raise RuntimeError("the password is hunter2")


@full.resource("item://{number}", mime_type="text/plain")
def item(number: int) -> str:
    """An item by its number."""
    if number > 100:
        raise NotFound
    return f"item {number}"


@full.resource("note://{title}", mime_type="text/plain")
def note(title: str) -> str:
    """A note by its title."""
    return title


def countries(partial: str) -> list[str]:
    return [country for country in CITIES if country.startswith(partial)]


def cities(partial: str, arguments: dict[str, str]) -> list[str]:
    chosen = [arguments["country"]] if "country" in arguments else list(CITIES)
    return sorted(city for country in chosen for city in CITIES[country] if city.startswith(partial))


@full.resource(
    "city://{country}/{name}",
    title="City",
    mime_type="text/plain",
    annotations=ANNOTATIONS,
    icons=[ICON],
    meta=META,
)
def city(country: Annotated[str, Complete(countries)], name: Annotated[str, Complete(cities)]) -> str:
    """A city of a country."""
    return f"{name} in {country}"


@full.resource("search://items{?query,limit}", mime_type="application/json")
def search(query: str, limit: int = 10) -> dict[str, Any]:
    """Search the items."""
    return {"query": query, "limit": limit}


# -- prompts -------------------------------------------------------------------------------------------


@full.prompt
def greet() -> str:
    """Greet someone."""
    return "Hello!"


@full.prompt
def review(
    code: Annotated[str, Param("The code to review.")], tone: Literal["kind", "harsh"] = "kind"
) -> list[Message]:
    """Review code."""
    return [user(f"Review this in a {tone} tone:\n{code}"), assistant(f"I will be {tone}.")]


@full.prompt
def repeat(word: str, times: int, loud: bool = False) -> str:
    """Repeat a word."""
    text = " ".join([word] * times)
    return text.upper() if loud else text


def languages(partial: str) -> list[str]:
    return [language for language in LANGUAGES if language.startswith(partial)]


@full.prompt(title="Translate", icons=[ICON], meta=META)
def translate(
    language: Annotated[str, Param("The target language.", title="Language"), Complete(languages)],
    text: str = "hello",
) -> PromptResult:
    """Translate a text."""
    return PromptResult(f"Translates to {language}.", [user(f"Translate to {language}: {text}")])


@full.prompt
def media() -> list[Message]:
    """Messages of every kind."""
    return [
        user(BLOCKS["image"]),
        assistant(BLOCKS["audio"]),
        user(BLOCKS["link"]),
        user(BLOCKS["resource"]),
        assistant(BLOCKS["blob"]),
    ]


def fail(partial: str) -> list[str]:
    raise RuntimeError("the password is hunter2")


@full.prompt(name="broken")
def broken_prompt(topic: Annotated[str, Complete(fail)] = "") -> str:
    """Cannot be built."""
    raise RuntimeError("the password is hunter2")
