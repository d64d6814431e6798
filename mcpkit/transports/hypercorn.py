"""Serving over HTTP with hypercorn, on trio: clear text, TLS, unix sockets.

Connections are those of `hypercorn_tcp` with the release of hypercorn that it was written for, and hypercorn's own
with any other.
"""

from __future__ import annotations

import functools
import socket
import ssl
import types
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import trio
from hypercorn.config import Config, Sockets
from hypercorn.trio import run as hypercorn_run
from hypercorn.utils import wrap_app

from mcpkit.transports import limits
from mcpkit.transports.address import CannotListen
from mcpkit.transports.asgi import Application
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.service import Service

_NO_LIMIT = 10**9
_HANDSHAKE_SECONDS = 10


def prepared(
    service: Service, bound: socket.socket, certfile: str | None, keyfile: str | None
) -> Callable[..., Awaitable[None]]:
    """Hypercorn serving at a socket: called with what ends it, it is to be started in a nursery. Raises `CannotListen`
    for a certificate that is no good.
    """
    config = _config(service.options, certfile, keyfile)
    sockets = Sockets([bound], [], []) if config.ssl_enabled else Sockets([], [bound], [])
    served = wrap_app(cast(Any, Application(service)), 0, "asgi")  # hypercorn's types know functions only

    async def serve(
        until: Callable[[], Awaitable[object]],
        task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        async def ending() -> None:
            await until()
            service.end_streams()

        await _worker(service.options)(
            served, config, sockets=sockets, shutdown_trigger=ending, task_status=task_status
        )

    return serve


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
