"""`mcpkit call`: call a tool as a client would, and print what comes back."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

import msgspec

from mcpkit.cli import client as common
from mcpkit.cli.ask import BadAnswer, choose
from mcpkit.leniency import coerce
from mcpkit.protocol import types
from mcpkit.testing import Client, ToolOutcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `call`."""
    common.add_arguments(parser)
    parser.add_argument("tool", metavar="TOOL")
    parser.add_argument(
        "arguments",
        metavar="name=value",
        nargs="*",
        type=_pair,
        help="an argument; lists and objects as JSON",
    )
    parser.add_argument(
        "--json", metavar="{…}", type=_object, default={}, help="all arguments as one JSON object"
    )
    parser.add_argument(
        "--answer",
        metavar="name=value",
        action="append",
        type=_pair,
        default=[],
        help="what to enter when the tool asks for this field; repeatable. Without it, a terminal is asked",
    )


def run(options: argparse.Namespace) -> int:
    """Call the tool; the exit code: 1 when it fails."""
    answers, capabilities = choose(dict(options.answer))

    async def use(client: Client) -> int:
        listed = await client.list_tools() if "tools" in client.server_capabilities else []
        tools = {tool.name: tool for tool in listed}
        if options.tool not in tools:
            print(
                f"mcpkit: there is no tool {options.tool!r}; there are: {', '.join(tools) or 'none'}",
                file=sys.stderr,
            )
            return 1
        written = _as_listed(dict(options.arguments), tools[options.tool].input_schema)
        arguments = {**options.json, **written}
        outcome = await client.call_tool(options.tool, arguments, on_progress=_show_progress)
        _show(outcome)
        return 1 if outcome.is_error else 0

    try:
        return common.with_client(options, use, answers=answers, capabilities=capabilities)
    except BadAnswer as error:
        print(f"mcpkit: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # at a question
        print(file=sys.stderr)
        return 130


def _as_listed(arguments: dict[str, str], schema: dict[str, Any]) -> dict[str, Any]:
    """What was written, as numbers, lists and so on where the tool's schema wants them: not every server reads text
    as leniently as ours.
    """
    read: dict[str, Any] = dict(arguments)
    for name in read:
        with contextlib.suppress(
            Exception
        ):  # a server's schema may be anything; the text then stays as it is
            read[name] = coerce(read[name], schema["properties"][name], schema.get("$defs", {}))
    return read


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=value")
    return name, value


def _object(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def _show_progress(progress: types.ProgressParams) -> None:
    of = f"/{progress.total:g}" if progress.total is not None else ""
    print(f"{progress.progress:g}{of} {progress.message or ''}".rstrip(), file=sys.stderr)


def _show(outcome: ToolOutcome) -> None:
    stream = sys.stderr if outcome.is_error else sys.stdout
    for block in outcome.content:
        common.show(_text(block), stream)


def _text(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent(text):
            return text
        case types.ImageContent(data, mime_type) | types.AudioContent(data, mime_type):
            return f"[{mime_type}, {len(data):,} bytes]"
        case types.ResourceLinkContent(uri):
            return uri
        case types.EmbeddedResourceContent(resource):
            return (
                resource.text
                if resource.text is not None
                else f"[{resource.uri}, {len(resource.blob or b''):,} bytes]"
            )
