"""Where an HTTP server listens: a host and a port, a unix socket, or a socket that was handed down.

The socket is bound here, and not by the server: so that what is wrong with the address is known before anything of
the app runs, and so that a supervisor can keep it open while the servers that use it come and go.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_BACKLOG = 1024
_UNIX = "unix:"
_REMEDIES = {
    errno.EADDRINUSE: "take another one, or port 0 for any that is free",
    errno.EADDRNOTAVAIL: "it belongs to another machine; 127.0.0.1 is this one, 0.0.0.0 all its networks",
    errno.EACCES: "take a port from 1024 on",
}


class CannotListen(OSError):
    """The address is taken, or not ours, or the certificate is no good; the message says which and why."""


@dataclass(frozen=True)
class Address:
    """`host` is a name, an IPv4 or IPv6 address, or "unix:PATH". `fd` is the descriptor of a socket that already
    listens there, from whoever started this process.
    """

    host: str
    port: int
    fd: int | None = None

    @property
    def unix(self) -> str | None:
        """The path of a unix socket; None for TCP."""
        return self.host.removeprefix(_UNIX) if self.host.startswith(_UNIX) else None

    def __str__(self) -> str:
        return self.host if self.unix is not None else _text(self.host, self.port)

    def url(self, bound: socket.socket, path: str, *, tls: bool) -> str:
        """What a client is given: with the port that 0 became."""
        if self.unix is not None:
            return str(self)
        host, port = bound.getsockname()[:2]
        return f"{'https' if tls else 'http'}://{_text(host, port)}{path}"


@contextmanager
def listening(address: Address) -> Generator[socket.socket]:
    """A socket that listens at `address` inside the block. A unix socket is removed afterwards, by whoever made it.
    Raises `CannotListen`.
    """
    try:
        bound = _listen(address)
    except OSError as error:
        remedy = None if address.unix else _REMEDIES.get(error.errno or 0)
        reason = f"{error.strerror or error}" + (f" ({remedy})" if remedy else "")
        raise CannotListen(f"cannot listen on {address}: {reason}") from None
    with bound:
        made = _identity(address.unix) if address.unix is not None and address.fd is None else None
        try:
            yield bound
        finally:
            if address.unix is not None and made is not None and made == _identity(address.unix):
                os.unlink(address.unix)


def _listen(address: Address) -> socket.socket:
    if address.fd is not None:
        os.set_inheritable(address.fd, False)  # what a handler starts must not keep the address
        return socket.socket(fileno=address.fd)
    if not address.host or address.unix == "":
        raise OSError("it is empty")
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family if address.unix is None else socket.AF_UNIX)
    try:
        bound.bind(_place(bound, address))
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    return bound


def _place(bound: socket.socket, address: Address) -> str | tuple[str, int]:
    if address.unix is None:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return address.host, address.port
    _remove_stale(address.unix)
    return address.unix


def _remove_stale(path: str) -> None:
    """Remove the socket of a server that did not end in order. One that answers stays, and so does any other file:
    binding then says that the address is in use.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode) and not _answers(path):
            os.unlink(path)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)  # a full queue is an answer, too
        try:
            client.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            return True
        return True


def _identity(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
