"""`mcpkit run`: serve an app."""

from __future__ import annotations

import argparse
import sys
import traceback

from mcpkit.errors import from_user_code, innermost
from mcpkit.transports.descriptors import take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("--transport", choices=["stdio"], default="stdio", help="default: stdio")
    parser.add_argument(
        "--max-body", type=_size, metavar="BYTES", help="largest message accepted (default: 4 MiB)"
    )
    parser.add_argument(
        "--grace",
        type=float,
        metavar="S",
        help="seconds for running calls once the client has left (default: 0.5)",
    )
    parser.add_argument("--debug", action="store_true", help="show clients the text of internal errors")


def run(options: argparse.Namespace) -> int:
    """Serve; the exit code."""
    descriptors = take()  # before the script is imported: whatever it prints must not reach the client
    from mcpkit.cli.load import TargetError, load_app
    from mcpkit.transports import stdio

    try:
        app = load_app(options.target)
    except TargetError as error:
        print(f"mcpkit: {error}", file=sys.stderr)
        return 2
    except BaseException as error:  # a script may end in any way, sys.exit() included
        traceback.print_exception(from_user_code(error))
        print(f"mcpkit: {options.target} failed while it was imported", file=sys.stderr)
        return 1
    app.debug = app.debug or options.debug
    limits = {} if options.max_body is None else {"max_body": options.max_body}
    try:
        app.registry.resolve()
    except TypeError as error:
        print(f"mcpkit: {error}", file=sys.stderr)
        return 1
    try:
        stdio.run(app, descriptors=descriptors, grace=options.grace, **limits)
    except Exception as error:  # only a lifespan raises here, whatever it likes
        traceback.print_exception(from_user_code(innermost(error)))
        return 1
    return 0


def _size(text: str) -> int:
    size = int(text)
    if size < 1024:
        raise argparse.ArgumentTypeError("at least 1024 bytes")
    return size
