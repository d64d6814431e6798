"""`mcpkit run`: serve an app."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from typing import Any

from mcpkit.app import App
from mcpkit.errors import from_user_code, innermost
from mcpkit.seal import BadKeys
from mcpkit.transports.descriptors import take

_PATIENCE_SECONDS = 2.0
"""After about this long Claude Code's first turn goes without the tools of a server that has not answered."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument(
        "--transport", choices=["stdio", "http", "sse"], default="stdio", help="default: stdio"
    )
    parser.add_argument("--debug", action="store_true", help="show clients the text of internal errors")
    parser.add_argument(
        "--max-body", type=_size, metavar="BYTES", help="largest message (default: 4 MiB, over sse 1 MiB)"
    )
    parser.add_argument(
        "--grace",
        type=_seconds,
        metavar="S",
        help="seconds for running calls at the end (default: 0.5 on stdio, 5 over HTTP)",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="a line for each request on standard error"
    )
    http = parser.add_argument_group("with --transport http or sse")
    http.add_argument("--host", help="address, or unix:PATH (default: 127.0.0.1)")
    http.add_argument("--port", type=_port, help="0 takes a free one (default: 8000)")
    http.add_argument("--path", default=None, help="where the endpoint is (default: /mcp, or /sse)")
    http.add_argument(
        "--with-sse", action="store_true", default=None, help="HTTP+SSE as well, at /sse, for older clients"
    )
    http.add_argument("--allow-host", action="append", metavar="HOST", help="a further name of this server")
    http.add_argument("--allow-origin", action="append", metavar="URL", help="web pages that may use it")
    http.add_argument(
        "--trusted-proxy", action="append", metavar="CIDR", help="a reverse proxy whose X-Forwarded-* counts"
    )
    http.add_argument("--body-timeout", type=_seconds, metavar="S", help="for a body to arrive (default: 30)")
    http.add_argument("--max-sessions", type=int, metavar="N", help="at the same time (default: 10,000)")
    http.add_argument("--session-idle", type=_seconds, metavar="S", help="until forgotten (default: 1,800)")
    http.add_argument(
        "--send-timeout", type=_seconds, metavar="S", help="for a client to take 64 KiB (default: 30)"
    )
    http.add_argument("--certfile", metavar="FILE", help="serve TLS with this certificate")
    http.add_argument("--keyfile", metavar="FILE", help="and this key (default: in the same file)")
    http.add_argument(
        "--server",
        choices=["auto", "hypercorn"],
        help="what serves it: hypercorn speaks HTTP/2 as well, at a price (default: auto)",
    )
    http.add_argument("--reload", action="store_true", help="start again when a script changes")
    http.add_argument("--fd", type=int, help=argparse.SUPPRESS)  # a socket that --reload has bound


def run(options: argparse.Namespace) -> int:
    """Serve; the exit code."""
    problem = _problem(options)
    if problem is not None:
        print(f"mcpkit: {problem}", file=sys.stderr)
        return 2
    if options.reload and options.fd is None:
        return _supervise(options)
    # Before the script is imported: whatever it prints must not reach the client.
    serve = _serve_stdio(options) if options.transport == "stdio" else _serve_http(options)
    from mcpkit.cli.load import TargetError, load_app

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
    try:
        app.registry.resolve()
    except TypeError as error:
        print(f"mcpkit: {error}", file=sys.stderr)
        return 1
    try:
        return serve(app)
    except Exception as group:  # keys that cannot be used, or a lifespan, which raises whatever it likes
        failure = innermost(group)
        if isinstance(failure, BadKeys):
            print(f"mcpkit: {failure}", file=sys.stderr)
        else:
            traceback.print_exception(from_user_code(failure))
        return 1


_HTTP_OPTIONS = (
    "host",
    "port",
    "path",
    "with_sse",
    "allow_host",
    "allow_origin",
    "trusted_proxy",
    "body_timeout",
    "max_sessions",
    "session_idle",
    "send_timeout",
    "certfile",
    "keyfile",
    "server",
)


_NOT_SSE = ("--with-sse", "--session-idle")
"""Options that would mean nothing where HTTP+SSE is served alone."""


def _problem(options: argparse.Namespace) -> str | None:
    """What is wrong with the options as a whole."""
    if options.reload and options.transport == "stdio":
        return "--reload needs --transport http: over stdio a client starts the server, and would lose it"
    given = [f"--{name.replace('_', '-')}" for name in _HTTP_OPTIONS if getattr(options, name) is not None]
    if given and options.transport == "stdio":
        return f"{', '.join(given)} needs --transport http"
    stray = [option for option in given if option in _NOT_SSE]
    if stray and options.transport == "sse":
        return (
            f"{', '.join(stray)} needs --transport http: with sse alone, nothing is beside it, "
            "and a session lasts as long as its stream"
        )
    if options.keyfile is not None and options.certfile is None:
        return "--keyfile needs --certfile"
    return None if options.transport == "stdio" else _http_problem(options)


def _http_problem(options: argparse.Namespace) -> str | None:
    from mcpkit.transports.options import HttpOptions

    try:
        HttpOptions(
            transport=options.transport,
            allowed_hosts=options.allow_host or (),
            allowed_origins=options.allow_origin or (),
            trusted_proxies=options.trusted_proxy or (),
            **_given(options, "path", "with_sse"),
        )
    except ValueError as error:
        return str(error)
    return None


def _supervise(options: argparse.Namespace) -> int:
    from mcpkit.cli.load import TargetError
    from mcpkit.cli.reload import supervise
    from mcpkit.transports.address import Address, CannotListen
    from mcpkit.transports.options import HttpOptions

    grace = HttpOptions().grace if options.grace is None else options.grace
    try:
        supervise(
            options.target,
            options.words,
            Address(options.host or "127.0.0.1", 8000 if options.port is None else options.port),
            grace,
        )
    except TargetError as error:
        print(f"mcpkit: {error}", file=sys.stderr)
        return 2
    except CannotListen as error:
        print(f"mcpkit: {error}", file=sys.stderr)
        return 1


def _serve_stdio(options: argparse.Namespace) -> Callable[[App], int]:
    descriptors = take()

    def serve(app: App) -> int:
        if options.verbose:
            _log_requests()
        app.run("stdio", descriptors=descriptors, **_given(options, "max_body", "grace"))
        return 0

    return serve


def _serve_http(options: argparse.Namespace) -> Callable[[App], int]:
    names = (
        "host",
        "port",
        "fd",
        "path",
        "with_sse",
        "max_body",
        "body_timeout",
        "max_sessions",
        "session_idle",
        "send_timeout",
        "grace",
        "server",
    )
    lists = {
        "allowed_hosts": options.allow_host or (),
        "allowed_origins": options.allow_origin or (),
        "trusted_proxies": options.trusted_proxy or (),
    }
    tls = _given(options, "certfile", "keyfile")

    def serve(app: App) -> int:
        from mcpkit.transports.address import CannotListen

        if options.reload:
            from mcpkit.cli.reload import end_with_parent

            end_with_parent()
        if options.verbose:
            _log_requests()
        try:
            app.run(options.transport, **_given(options, *names), **lists, **tls)
        except CannotListen as error:
            print(f"mcpkit: {error}", file=sys.stderr)
            return 1
        return 0

    return serve


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given; the others are left to their own defaults."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _log_requests() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("mcpkit: %(message)s"))
    for name in ("mcpkit.access", "mcpkit.timing", "mcpkit.auth"):
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.disabled = False  # where the script's own set-up has switched off what there was
        log.addHandler(handler)
        log.propagate = False


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


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("a port is 0 to 65535")
    return port


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError("a number of seconds")
    return seconds


def _size(text: str) -> int:
    size = int(text)
    if size < 1024:
        raise argparse.ArgumentTypeError("at least 1024 bytes")
    return size
