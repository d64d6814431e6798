"""`mcpkit inspect`: what an app offers, as a client sees it, with warnings."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from mcpkit.cli import client as common
from mcpkit.protocol import types
from mcpkit.testing import Client

_LONGEST_DESCRIPTION = 2048
"""Characters of a tool's description or of the instructions that Claude Code shows its model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `inspect`."""
    common.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    """Print it; the exit code."""

    async def use(client: Client) -> int:
        offer = await _read(client)
        lines = (
            [msgspec.json.format(msgspec.json.encode(offer)).decode()]
            if options.json
            else _report(client, offer)
        )
        common.show("\n".join(lines), sys.stdout)
        return 0

    return common.with_client(options, use)


async def _read(client: Client) -> dict[str, Any]:
    offer: dict[str, Any] = {
        "server": client.server,
        "instructions": client.instructions,
        "capabilities": client.server_capabilities,
    }
    if "tools" in client.server_capabilities:
        offer["tools"] = await client.list_tools()
    if "resources" in client.server_capabilities:
        offer["resources"] = await client.list_resources()
        offer["resourceTemplates"] = await client.list_resource_templates()
    if "prompts" in client.server_capabilities:
        offer["prompts"] = await client.list_prompts()
    offer["warnings"] = list(_warnings(client, offer))
    return offer


def _report(client: Client, offer: dict[str, Any]) -> Iterator[str]:
    yield f"{client.server.name} {client.server.version}" if client.server else "(the server gives no name)"
    for tool in offer.get("tools", ()):
        yield from _section("tool", tool.name, tool.description)
        for name, schema in tool.input_schema.get("properties", {}).items():
            optional = "" if name in tool.input_schema.get("required", ()) else "?"
            yield f"    {name}{optional}: {_kind(schema)}{_described(schema.get('description'))}"
    for resource in offer.get("resources", ()):
        yield from _section("resource", resource.uri, resource.description)
    for template in offer.get("resourceTemplates", ()):
        yield from _section("template", template.uri_template, template.description)
    for prompt in offer.get("prompts", ()):
        yield from _section("prompt", prompt.name, prompt.description)
        for argument in prompt.arguments or ():
            yield f"    {argument.name}{'' if argument.required else '?'}{_described(argument.description)}"
    if offer["warnings"]:
        yield ""
    for warning in offer["warnings"]:
        yield f"warning: {warning}"


def _section(kind: str, name: str, description: str | None) -> Iterator[str]:
    first = (description or "").strip().partition("\n")[0]
    yield f"\n{kind} {name}{_described(first)}"


def _described(text: str | None) -> str:
    return f" - {text}" if text else ""


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(_kind(option) for option in schema["anyOf"])
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        return f"array of {_kind(schema['items'])}"
    return str(schema.get("type") or schema.get("$ref", "any").rpartition("/")[2])


def _warnings(client: Client, offer: dict[str, Any]) -> Iterator[str]:
    """What real clients are known to stumble over."""
    tools: list[types.Tool] = offer.get("tools", [])
    if not any(offer.get(kind) for kind in ("tools", "resources", "resourceTemplates", "prompts")):
        yield "the app offers nothing: decorate a function with @app.tool"
    if len(client.instructions or "") > _LONGEST_DESCRIPTION:
        length = len(client.instructions or "")
        yield f"instructions have {length:,} characters; Claude Code shows the first {_LONGEST_DESCRIPTION:,}"
    shown = Counter(_as_shown(tool.name) for tool in tools)
    for tool in tools:
        if not tool.description:
            yield f"tool {tool.name} has no description: give the function a docstring"
        if len(tool.description or "") > _LONGEST_DESCRIPTION:
            yield f"tool {tool.name}: its description is cut after {_LONGEST_DESCRIPTION:,} characters in Claude Code"
        if _as_shown(tool.name) != tool.name or len(tool.name) > 64:
            shown_as = _as_shown(tool.name)
            yield f"tool {tool.name}: Claude Code and Codex show it as {shown_as}, Gemini cuts it after 64 characters"
        if shown[_as_shown(tool.name)] > 1:
            yield f"tool {tool.name}: another tool has the same name once clients have replaced its dots"
        if tool.input_schema.keys() & {"anyOf", "oneOf"}:
            yield f"tool {tool.name}: anyOf or oneOf at the root of its input schema makes Claude Code drop it"


def _as_shown(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
