"""Serving over HTTP with hypercorn, on trio: clear text, TLS, unix sockets.

Connections are those of `hypercorn_tcp` with the release of hypercorn that it was written for, and hypercorn's own
with any other.
"""

from __future__ import annotations

import functools
import signal
import ssl
import sys
import threading
import types
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import trio
from hypercorn.config import Config, Sockets
from hypercorn.trio import run as hypercorn_run
from hypercorn.utils import wrap_app

from mcpkit.app import App
from mcpkit.errors import innermost
from mcpkit.transports import limits
from mcpkit.transports.address import Address, CannotListen, listening
from mcpkit.transports.asgi import Application
from mcpkit.transports.options import HttpOptions

_NO_LIMIT = 10**9
_HANDSHAKE_SECONDS = 10


def run(app: App, **options: Any) -> None:
    """Serve until a signal comes; see `serve` for the options."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            stop = trio.Event()
            await nursery.start(_stop_on_signal, stop)
            async with trio.open_nursery() as serving:
                with trio.CancelScope() as starting:  # a lifespan may take its time, or for ever
                    nursery.start_soon(_cancel_after, stop, starting)
                    await serving.start(functools.partial(serve, app, until=stop.wait, **options))
            nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    except BaseExceptionGroup as group:
        raise innermost(group) from None


async def _stop_on_signal(
    stop: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    if threading.current_thread() is not threading.main_thread():
        task_status.started()  # only the main thread may handle signals
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        await anext(aiter(signals))
    stop.set()


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _print_ready(app: App, urls: Iterable[str]) -> None:
    sys.stderr.write("".join(f"mcpkit: {app.name} serving {url}\n" for url in urls))
    sys.stderr.flush()


async def serve(
    app: App,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    fd: int | None = None,
    certfile: str | None = None,
    keyfile: str | None = None,
    until: Callable[[], Awaitable[object]] = trio.sleep_forever,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
    **options: Any,
) -> None:
    """Serve until `until` returns; then streams end, and calls have `grace` seconds. The task has started,
    with the URL, when the server listens and the lifespan has begun.

    `fd` is the descriptor of a listening socket, to be used instead of a new one at `host` and `port`. The
    other options are those of `HttpOptions`. Raises `CannotListen`, and what the lifespan raises.
    """
    address = Address(host, port, fd)
    http = HttpOptions(**options)
    application = Application(app, http, raises=True)
    served = wrap_app(cast(Any, application), 0, "asgi")  # hypercorn's types know functions only
    config = _config(http, certfile, keyfile)

    async def ending() -> None:
        await until()
        application.end_streams()

    with listening(address) as bound:
        sockets = Sockets([bound], [], []) if config.ssl_enabled else Sockets([], [bound], [])
        paths = [path or "/" for path, kind in http.endpoints if kind != "message"]
        urls = dict.fromkeys(address.url(bound, path, tls=config.ssl_enabled) for path in paths)
        start = functools.partial(_worker(http), served, config, sockets=sockets, shutdown_trigger=ending)
        try:
            async with application.lifespan(), trio.open_nursery() as nursery:
                await nursery.start(start)
                _print_ready(app, urls)
                task_status.started(next(iter(urls)))
        except BaseExceptionGroup as group:
            raise innermost(group) from None


def _worker(options: HttpOptions) -> Callable[..., Awaitable[None]]:
    """Hypercorn's server with the connections of `hypercorn_tcp`. It has no parameter for them, so its function gets
    a namespace of its own: whoever else uses hypercorn in this process gets what hypercorn has.
    """
    stock = hypercorn_run.worker_serve
    if not version("hypercorn").startswith("0.18."):
        return stock
    from mcpkit.transports.hypercorn_tcp import Connection

    connection = functools.partial(Connection, send_timeout=options.send_timeout)
    names = {**vars(hypercorn_run), "TCPServer": connection}
    served = types.FunctionType(stock.__code__, names, stock.__name__, stock.__defaults__, stock.__closure__)
    served.__kwdefaults__ = stock.__kwdefaults__
    return served


def _config(options: HttpOptions, certfile: str | None, keyfile: str | None) -> Config:
    config = Config()
    config.errorlog = None
    config.accesslog = None
    config.include_server_header = False
    config.keep_alive_max_requests = _NO_LIMIT
    config.h11_max_incomplete_size = config.h2_max_header_list_size = limits.MAX_HEADER_BYTES
    config.graceful_timeout = options.grace
    config.ssl_handshake_timeout = _HANDSHAKE_SECONDS
    if certfile is not None:
        config.certfile, config.keyfile = certfile, keyfile or certfile  # one file may hold both
        _check_certificate(config.certfile, config.keyfile)
    elif keyfile is not None:
        raise CannotListen(f"there is a key ({keyfile}), but no certificate: name it as well (--certfile)")
    return config


def _check_certificate(certfile: str, keyfile: str) -> None:
    """Say what is wrong before the app starts; the system's own errors name no file, or nothing at all."""
    files = " and ".join(dict.fromkeys((certfile, keyfile)))
    encrypted = False
    try:
        encrypted = b"ENCRYPTED" in Path(certfile).read_bytes() + Path(keyfile).read_bytes()
        # Without a password of ours, it would ask for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password="")
    except ssl.SSLError as error:
        reason = (error.reason or "no certificate and key in PEM form").replace("_", " ")
        reason = "the key is encrypted; take one without a password" if encrypted else reason
        raise CannotListen(f"the certificate and key in {files} cannot be used: {reason}") from None
    except OSError as error:
        raise CannotListen(f"cannot read {error.filename}: {error.strerror or error}") from None
