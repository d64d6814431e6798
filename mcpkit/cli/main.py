"""The command `mcpkit`: its arguments, and which module carries out what.

Rule 1. `run` on stdio must answer within the start-up limits of clients, so a command's module is imported
        only when it is asked for.
Rule 2. Exit codes: 0 done, 1 the app failed, 2 usage.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

_COMMANDS = {
    "run": "serve an app: to one client over standard input and output, or to many over HTTP",
    "inspect": "show what an app offers, with warnings",
    "call": "call a tool and print its result",
    "install": "register an app, or a running server, with Claude Code or another client",
}

_TARGET_HELP = """\
TARGET is server.py, server.py:app or package.module:app; without a name, the module's only App or its
create_app(). `inspect` and `call` also take the URL of a running server.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command = next((argument for argument in arguments if argument in _COMMANDS), None)
    parser = argparse.ArgumentParser(
        prog="mcpkit",
        description="Serve Python functions to Model Context Protocol clients.",
        epilog=_TARGET_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcpkit {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in _COMMANDS.items():
        subparser = commands.add_parser(name, help=text, description=text, epilog=_TARGET_HELP)
        if name == command:
            module = importlib.import_module(f"mcpkit.cli.{name}")
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    options.words = arguments
    return int(options.run(options))


def _version() -> str:
    from mcpkit import __version__  # with --help, a few milliseconds less

    return __version__


if __name__ == "__main__":
    sys.exit(main())
