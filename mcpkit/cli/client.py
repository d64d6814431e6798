"""What `call` and `inspect` share: a client of TARGET, which `mcpkit run` serves in a process of its own, or of a
running server.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TextIO

import trio

from mcpkit.answering import Answers
from mcpkit.protocol.errors import McpError
from mcpkit.testing import Client, Disconnected, ProtocolViolation
from mcpkit.transports.wire import HttpFailure

_PATIENCE_SECONDS = 30.0
"""For the first answer; clients give up no later."""

# RFC 9110 sections 5.5 and 5.6.2; with a colon, as curl wants it, or as everything else here.
_FIELD = re.compile(
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=\s*|:\s+)([\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)\s*"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TARGET, and the headers to send where it is a URL."""
    parser.add_argument(
        "target", metavar="TARGET", help="server.py, package.module:app, or the URL of a running server"
    )
    add_header_option(parser, "header for the server at a URL, as in Authorization='Bearer …'; repeatable")


def add_header_option(parser: argparse.ArgumentParser, text: str) -> None:
    """`--header`, whose values become pairs."""
    parser.add_argument("--header", metavar="K=V", action="append", default=[], type=_header, help=text)


def _header(text: str) -> tuple[str, str]:
    field = _FIELD.fullmatch(text)
    if field is None:
        name = re.split("[=:]", text, maxsplit=1)[0]  # the value may be a secret
        raise argparse.ArgumentTypeError(f"{name!r} is not of the form NAME=VALUE, in plain ASCII")
    return field[1], field[2]


def show(text: str, stream: TextIO) -> None:
    """Print, unless nobody reads any more: `mcpkit inspect server.py | head`."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # or Python complains at its end


def is_url(target: str) -> bool:
    """Whether TARGET is a running server's URL."""
    return target.startswith(("http://", "https://"))


def with_client(
    options: argparse.Namespace,
    use: Callable[[Client], Awaitable[int]],
    *,
    answers: Answers | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> int:
    """Connect to TARGET, let `use` speak with it, and return its exit code; what goes wrong is said in one line.
    With `answers` the client can be asked for what `capabilities` says.
    """
    if options.header and not is_url(options.target):
        print("mcpkit: --header is for servers that are reached at a URL", file=sys.stderr)
        return 2

    async def main() -> int:
        client = Client(
            options.target, headers=dict(options.header), answers=answers, capabilities=capabilities
        )
        try:
            with trio.fail_after(_PATIENCE_SECONDS) as patience:
                async with client:
                    patience.deadline = float("inf")  # it has answered
                    return await use(client)
        except trio.TooSlowError:
            print(f"mcpkit: {options.target} did not answer within {_PATIENCE_SECONDS:g} s", file=sys.stderr)
            return 1
        except Disconnected:
            return client.exit_code or 1  # the server has said why on standard error
        except (HttpFailure, ProtocolViolation) as error:
            print(f"mcpkit: {str(error).splitlines()[0]}", file=sys.stderr)
            return 1
        except McpError as error:
            print(f"mcpkit: {error.message} (error {error.code})", file=sys.stderr)
            return 1

    try:
        return trio.run(main)
    except KeyboardInterrupt:
        return 130
