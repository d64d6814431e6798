"""`mcpkit install`: register a server with a client, so that the client starts it by itself.

The way: check the options, load the app (for its name, and to see that it loads), work out the command,
look at the client's file, then either show what would be written or write it. Nothing is written before all
of that held. For a server that runs already, its URL takes the place of the command, and it is asked for its name.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import sys
import unicodedata
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from mcpkit.cli import client as common
from mcpkit.cli.claude import ClaudeError, add_words, project_directory, register
from mcpkit.cli.clients import CLIENTS, Client, Machine, Place, Scope
from mcpkit.cli.configfile import Config, ConfigError, load, snippet
from mcpkit.cli.launch import Launch, launch
from mcpkit.cli.load import TargetError, load_app
from mcpkit.testing import Client as TestClient
from mcpkit.transports.wire import is_sse

_SCOPES: tuple[Scope, ...] = ("local", "project", "user")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UsageError(Exception):
    """The options ask for something that cannot be; the text says what would do."""


class Unreachable(Exception):
    """The server at --url does not say its name; why has been said."""


@dataclass(frozen=True)
class Registration:
    """What is to be written where: `entry` under the path `keys` of `file`."""

    client: Client
    scope: Scope
    name: str
    file: Path
    keys: tuple[str, ...]
    entry: Mapping[str, Any]

    @property
    def place(self) -> Place:
        """The row of the client's table for this scope."""
        return self.client.places[self.scope]

    @property
    def snippet(self) -> str:
        """The entry as the text of an otherwise empty file."""
        return snippet(self.client.format, self.keys, self.entry)

    @property
    def claude(self) -> str | None:
        """The `claude` executable where the file is Claude Code's own and the command is on PATH."""
        return (
            shutil.which("claude")
            if self.client is CLIENTS["claude-code"] and self.scope != "project"
            else None
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `mcpkit install`."""
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        help="server.py, server.py:app or package.module:app, which the client will start",
    )
    parser.add_argument("--url", help="register the server that runs at this URL instead")
    parser.add_argument(
        "--transport",
        choices=["stdio", "http", "sse"],
        help="stdio for a TARGET, http or sse for a --url; need not be said, where a URL of sse ends in /sse",
    )
    common.add_header_option(parser, "header that the client sends to the --url; repeatable")
    parser.add_argument("--client", choices=list(CLIENTS), default="claude-code", help="default: %(default)s")
    parser.add_argument("--name", help="name of the server in the client (default: the app's name)")
    parser.add_argument(
        "--scope",
        choices=_SCOPES,
        help="local: you, in this project; project: everyone, in this project; user: you, everywhere "
        "(default: local for claude-code, project for vscode, user for the others)",
    )
    parser.add_argument(
        "--env",
        metavar="K=V",
        action="append",
        default=[],
        help="environment variable for a TARGET; repeatable",
    )
    parser.add_argument(
        "--print", dest="show", action="store_true", help="show what would be written; write nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Do what `add_arguments` declares. Returns the exit code: 0 done, 1 nothing was registered, 2 usage.

    What the user's script raises while it is imported is not caught here.
    """
    try:
        registration = _registration(args)
    except (UsageError, TargetError) as error:
        return _complain(str(error), 2)
    except Unreachable as error:
        return _complain(str(error), 1)
    try:
        config = load(registration.file, registration.client.format)
        content = config.put(registration.keys, registration.entry)
        for warning in _warnings(registration):
            print(f"mcpkit: warning: {warning}", file=sys.stderr)
        _say(_shown(registration) if args.show else _register(registration, config, content))
    except ConfigError as error:
        return _complain(f"{error}.\n{_by_hand(registration)}", 1)
    except ClaudeError as error:
        return _complain(str(error), 1)
    return 0


def _registration(args: argparse.Namespace) -> Registration:
    """The options and the script, checked and put together; the options first, they are cheaper."""
    client = CLIENTS[args.client]
    scope = _scope(client, args.scope)
    if args.name is not None:
        _check_name(client, args.name)
    name, entry = _local(client, args) if args.url is None else _remote(client, args)
    machine = Machine(sys.platform, Path.home(), Path.cwd(), os.environ)
    keys = (*_outer_keys(scope, machine), client.key, name)
    return Registration(client, scope, name, Path(client.places[scope].file(machine)), keys, entry)


def _local(client: Client, args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The name of a script's app, and the entry that starts it."""
    if args.target is None or args.transport in ("http", "sse"):
        raise UsageError("name a TARGET to be started, or the --url of a server that runs already")
    if args.header:
        raise UsageError("--header is for a --url; a TARGET takes --env")
    env = _environment(args.env)
    app = load_app(args.target)
    name = args.name or _slug(app.name) or _slug(PurePath(args.target).stem) or "mcp-server"
    return name, _entry(client, launch(args.target, env))


def _remote(client: Client, args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The name of a running server, and the entry that reaches it."""
    if args.target is not None or args.transport == "stdio":
        raise UsageError("name either a TARGET to be started or the --url of a server that runs already")
    if args.env:
        raise UsageError("--env is for a TARGET; a --url takes --header")
    if client.remote is None:
        raise UsageError(f"{client.label}'s file takes no URLs: {client.instead}")
    _check_url(args.url)
    kind = args.transport or ("sse" if is_sse(args.url) else "http")
    if kind == "sse" and not client.remote.sse:
        raise UsageError(
            f"{client.label} does not speak HTTP+SSE: serve it Streamable HTTP, as `mcpkit run --with-sse` does "
            "besides, and register that URL (or say --transport http, if this one is)"
        )
    headers: dict[str, str] = dict(args.header)
    entry: dict[str, Any] = {"type": kind} if client.remote.typed else {}
    entry |= {"url": args.url, **({client.remote.headers: headers} if headers else {})}
    return args.name or _slug(_ask_name(args)) or "mcp-server", entry


def _check_url(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and url.isascii()
    except ValueError:
        plain = False
    if not plain or not url.isprintable() or " " in url:
        raise UsageError(f"--url {url!r} is no URL of a server, such as http://127.0.0.1:8000/mcp")


def _ask_name(args: argparse.Namespace) -> str:
    """What the server at --url calls itself. Raises `Unreachable`."""
    names: list[str] = []

    async def use(client: TestClient) -> int:
        names.append(client.server.name if client.server is not None else "")
        return 0

    if common.with_client(argparse.Namespace(target=args.url, header=args.header), use):
        raise Unreachable(
            "the server was not registered; start it first, or give it a --name to do without. "
            "Where a token is needed, the name is enough: the client signs in by itself"
        )
    return names[0]


def _scope(client: Client, wanted: Scope | None) -> Scope:
    if wanted is None:
        return next(iter(client.places))
    if wanted not in client.places:
        raise UsageError(f"{client.label} has no scope {wanted!r}; use --scope {' or '.join(client.places)}")
    return wanted


def _environment(words: Sequence[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for word in words:
        variable, equals, value = word.partition("=")
        if not equals or not _VARIABLE.fullmatch(variable):
            raise UsageError(f"--env {word!r} is not of the form NAME=VALUE")
        env[variable] = value
    return env


def _check_name(client: Client, name: str) -> None:
    if client.strict and not _PLAIN_NAME.fullmatch(name):
        raise UsageError(
            f"{client.label} refuses the name {name!r}: it takes letters, digits, '-' and '_' only. "
            f"Try --name {_slug(name) or 'my-server'}"
        )
    if not name.strip() or not name.isprintable():
        raise UsageError(f"--name {name!r} is empty or holds control characters")


def _slug(name: str) -> str:
    """`name` in the characters that every client takes: `Café Menu!` is `Cafe-Menu`. May be empty."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_-]+", "-", ascii_name).strip("-")


def _outer_keys(scope: Scope, machine: Machine) -> tuple[str, ...]:
    """Where in its file the local scope of Claude Code, the only client that has one, keeps this project."""
    if scope != "local":
        return ()
    directory = str(project_directory(Path(machine.cwd)))
    return "projects", directory.replace("\\", "/") if machine.platform == "win32" else directory


def _entry(client: Client, start: Launch) -> dict[str, Any]:
    """The entry in the shape that the client reads. Raises UsageError when it cannot be written down."""
    entry: dict[str, Any] = {"type": "stdio"} if client.typed else {}
    entry |= {"command": start.command, "args": list(start.args)}
    if client.typed or start.env:
        entry["env"] = dict(start.env)
    try:
        json.dumps(entry, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UsageError("a path or a value is not valid UTF-8, which every client's file must be") from error
    return entry


def _warnings(registration: Registration) -> list[str]:
    name, label = registration.name, registration.client.label
    if _PLAIN_NAME.fullmatch(name):
        return []
    return [
        f"{label} turns {name!r} into something else in the names of its tools: "
        f"they take letters, digits, '-' and '_' only"
    ]


def _shown(registration: Registration) -> str:
    lines = [f"{registration.client.label}, {registration.scope} scope, in {registration.file}:"]
    if registration.claude:
        words = add_words(registration.scope, registration.name, registration.entry)
        lines = [
            *lines[:-1],
            f"{lines[-1][:-1]}, by the command",
            f"  {shlex.join(['claude', *words])}",
            "which writes:",
        ]
    return "\n".join([*lines, registration.snippet.rstrip("\n")])


def _register(registration: Registration, config: Config, content: bytes) -> str:
    """Write it, unless it is there already. Returns what to tell the person."""
    r = registration
    scope = f"local scope of {r.keys[1]}" if r.scope == "local" else f"{r.scope} scope"
    where = f"with {r.client.label} ({scope}) in {r.file}\nTo see it: {r.place.see}"
    if content == config.raw:
        return f"{r.name} is already registered {where}"
    replaced = config.find(r.keys) is not None
    if r.claude:
        merged = {**r.entry, **config.kept(r.keys, r.entry)}
        register(r.claude, r.scope, r.name, merged, config.find(r.keys))
    else:
        config.save(content, private=r.scope != "project")
    instead = " in place of another entry of that name" if replaced else ""
    return f"Registered {r.name}{instead} {where}"


def _by_hand(registration: Registration) -> str:
    return f"Nothing was written. By hand, {registration.file} needs:\n{registration.snippet.rstrip()}"


def _say(text: str) -> None:
    """Print; a character that the terminal cannot show must not make a crash of what was done."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _complain(text: str, code: int) -> int:
    print(f"mcpkit install: {text}", file=sys.stderr)
    return code
