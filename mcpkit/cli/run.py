"""`mcpkit run`: serve an app."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import traceback
from collections.abc import Generator

from mcpkit.errors import from_user_code, innermost
from mcpkit.transports.descriptors import take

_PATIENCE_SECONDS = 2.0
"""After about this long Claude Code's first turn goes without the tools of a server that has not answered."""


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
        with _impatience(options.target):
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


@contextlib.contextmanager
def _impatience(target: str) -> Generator[None]:
    """Say so when the script takes long to import: until it is, no client gets an answer, and most give up."""
    importer = threading.get_ident()
    timer = threading.Timer(_PATIENCE_SECONDS, _say_slow, (target, importer))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say_slow(target: str, importer: int) -> None:
    frame = sys._current_frames().get(importer)
    place = ""
    while frame is not None and not place:
        if frame.f_code.co_name == "<module>":
            place = f" (at {frame.f_code.co_filename}, line {frame.f_lineno})"
        frame = frame.f_back
    print(
        f"mcpkit: {target} is still being imported after {_PATIENCE_SECONDS:g} s{place}; clients wait for their "
        "first answer meanwhile, and some give up. Import what is slow inside the functions that use it.",
        file=sys.stderr,
    )


def _size(text: str) -> int:
    size = int(text)
    if size < 1024:
        raise argparse.ArgumentTypeError("at least 1024 bytes")
    return size
