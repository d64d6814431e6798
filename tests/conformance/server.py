"""The server that the official conformance suite is run against: its scenarios call these by their names and
look for these answers.

It uses the public face alone. What the suite needs and this file cannot say is missing in mcpkit.
"""

from __future__ import annotations

import io
import wave
from typing import Annotated, Any

import trio
from asking import asking

from mcpkit import (
    App,
    Audio,
    Complete,
    Context,
    EmbeddedResource,
    Header,
    Image,
    McpError,
    Message,
    Text,
    ToolError,
    user,
)

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
    "78da63f8cfc0000003010100f70341430000000049454e44ae426082"
)
"""One red pixel."""

MISSING_CLIENT_CAPABILITY = -32021

app = App("conformance", "1.0.0", instructions="For the official conformance suite.")
app.register(asking, prefix="")


def silence() -> bytes:
    """A sound: 10 ms of nothing."""
    data = io.BytesIO()
    with wave.open(data, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(160))
    return data.getvalue()


# -- Content, logging, progress, errors ------------------------------------------------------


@app.tool
async def test_simple_text() -> str:
    """A text."""
    return "This is a simple text response for testing."


@app.tool
async def test_image_content() -> Image:
    """An image."""
    return Image(PNG)


@app.tool
async def test_audio_content() -> Audio:
    """A sound."""
    return Audio(silence())


@app.tool
async def test_embedded_resource() -> EmbeddedResource:
    """A resource, sent along."""
    return EmbeddedResource(
        "test://embedded-resource", text="This is an embedded resource content.", mime_type="text/plain"
    )


@app.tool
async def test_multiple_content_types() -> list[Text | Image | EmbeddedResource]:
    """A text, an image and a resource."""
    return [
        Text("Multiple content types test:"),
        Image(PNG),
        EmbeddedResource(
            "test://mixed-content-resource",
            text='{"test":"data","value":123}',
            mime_type="application/json",
        ),
    ]


@app.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs at the beginning, in the middle and at the end."""
    await ctx.info("Tool execution started")
    await trio.sleep(0.05)
    await ctx.info("Tool processing data")
    await trio.sleep(0.05)
    await ctx.info("Tool execution completed")
    return "Logged three messages."


@app.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports its progress three times."""
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, total=100)
        await trio.sleep(0.05)
    return "Reported progress three times."


@app.tool
async def test_error_handling() -> str:
    """Always fails."""
    raise ToolError("This tool intentionally returns an error for testing")


# -- Transport and schema --------------------------------------------------------------------


@app.tool
async def test_reconnection(ctx: Context) -> str:
    """Lets go of the response before there is a result: the client comes back for it."""
    await ctx.close_stream()
    await trio.sleep(0.1)
    return "The client came back for this."


@app.tool(
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Has a hand-written schema that uses much of JSON Schema 2020-12."""
    return f"Called with {sorted(arguments)}."


@app.tool
async def test_mirrored_parameter(region: Annotated[str, Header("Region")]) -> str:
    """Has a parameter that is mirrored into a header."""
    return f"Called for {region}."


# -- What a client must be able to do; what it is told ---------------------------------------


@app.tool
async def test_missing_capability(ctx: Context) -> str:
    """Refuses clients that cannot sample."""
    if "sampling" not in ctx.capabilities:
        raise McpError(
            MISSING_CLIENT_CAPABILITY,
            "This tool needs a client that declares sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "This client declares sampling."


@app.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs, if the client wants to hear it."""
    await ctx.info("This tool was called")
    return "Logged a message."


@app.tool
async def test_trigger_tool_change() -> str:
    """Adds a tool, or takes it away again."""
    try:
        app.remove_tool("test_coming_and_going")
    except KeyError:
        app.add_tool(test_coming_and_going)
        return "There is one more tool."
    return "There is one tool less."


async def test_coming_and_going() -> str:
    """Is there at times."""
    return "This tool is there now."


@app.tool
async def test_trigger_prompt_change() -> str:
    """Adds a prompt, or takes it away again."""
    try:
        app.remove_prompt("test_passing_prompt")
    except KeyError:
        app.add_prompt(test_passing_prompt)
        return "There is one more prompt."
    return "There is one prompt less."


async def test_passing_prompt() -> str:
    """Is there at times."""
    return "This prompt is there now."


# -- Prompts ---------------------------------------------------------------------------------


def completions(partial: str) -> list[str]:
    """Values that begin with what was typed."""
    return [value for value in ("test", "testing", "tested") if value.startswith(partial)]


@app.prompt
async def test_simple_prompt() -> str:
    """A message."""
    return "This is a simple prompt for testing."


@app.prompt
async def test_prompt_with_arguments(arg1: Annotated[str, Complete(completions)], arg2: str) -> str:
    """A message with its arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@app.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
    """A resource, and what to do with it."""
    content = "Embedded resource content for testing."
    return [
        user(EmbeddedResource(resourceUri, text=content, mime_type="text/plain")),
        user("Please process the embedded resource above."),
    ]


@app.prompt
async def test_prompt_with_image() -> list[Message]:
    """An image, and what to do with it."""
    return [user(Image(PNG)), user("Please analyze the image above.")]


# -- Resources -------------------------------------------------------------------------------


@app.resource("test://static-text")
async def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@app.resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """An image."""
    return PNG


@app.resource("test://template/{id}/data")
async def template_data(id: str) -> dict[str, Any]:
    """A member of a family."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@app.resource("test://watched-resource")
async def watched_resource() -> str:
    """A text to subscribe to."""
    return "This resource can be watched."
