"""`mcpkit run --reload`: start the server again whenever a script changes.

The socket is bound once, here, and each server inherits it. So a client that connects while no server runs is not
refused: it waits in the socket's queue for the next one.

A server has a process group of its own: Ctrl-C on a terminal reaches this process alone, which then ends the server
in order. Should this process be killed, the server notices and ends (`end_with_parent`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from mcpkit.cli.load import TargetError, is_path, split_target
from mcpkit.engine.files import looks, snapshot
from mcpkit.transports.address import Address, listening
from mcpkit.watching import Found

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLEANUP_SECONDS = 3.0
"""How long a server may go on after its grace, until it is killed."""


def supervise(target: str, words: Sequence[str], address: Address, grace: float) -> NoReturn:
    """Serve TARGET at `address` with `mcpkit WORDS`, and again after each change, until a signal ends this process.
    A server that ends by itself, because of an error in the script, stays down until the next change. Raises
    `TargetError`, `CannotListen`.
    """
    folder = scripts_folder(target)
    with listening(address) as bound:
        told = False
        watched = changes(folder, lambda: server.poll() is not None and not told)
        next(watched)
        server = _start(words, bound.fileno())
        for number in _SIGNALS:
            signal.signal(number, _leave)
        try:
            while True:
                changed = next(watched)
                if changed:
                    _say(f"{_shown(changed)} changed")
                    _end(server, grace)
                    server, told = _start(words, bound.fileno()), False
                elif server.poll() is not None and not told:
                    _say(f"waiting for a change in {folder}")
                    told = True
        except KeyboardInterrupt:  # what watchfiles makes of `_leave`
            raise SystemExit(0) from None
        finally:
            _end(server, grace)


def end_with_parent() -> None:
    """Let this process end in order when the one that started it has gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def scripts_folder(target: str) -> Path:
    """The folder of TARGET's scripts: the one that holds the script, or the top package. Raises `TargetError`."""
    source, _ = split_target(target)
    if is_path(source):
        path = Path(source).absolute()
        if not path.is_file():
            raise TargetError(f"There is no file {path}")
        return path.parent
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    top = source.partition(".")[0]
    spec = find_spec(top)
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise TargetError(f"There is no module {top!r}")
    package = next(iter(spec.submodule_search_locations or ()), None)
    return Path(package or os.path.dirname(str(spec.origin))).absolute()


# -- The server ------------------------------------------------------------------------------


def _start(words: Sequence[str], fd: int) -> subprocess.Popen[bytes]:
    at = words.index("run") + 1
    # The current directory is on its import path only where it is on ours: a script of the user must not stand in
    # for a module of the same name.
    safe = [] if sys.path[0] in ("", os.getcwd()) else ["-P"]
    command = [sys.executable, *safe, "-m", "mcpkit", *words[:at], "--fd", str(fd), *words[at:]]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[fd], process_group=0)


def _end(server: subprocess.Popen[bytes], grace: float) -> None:
    server.terminate()
    try:
        server.wait(grace + _CLEANUP_SECONDS)
    except subprocess.TimeoutExpired:
        _say("the server does not end; it is killed")
    finally:
        server.kill()
        server.wait()


def _leave(number: int, frame: object) -> NoReturn:
    for again in _SIGNALS:  # a second one does not wait
        signal.signal(again, signal.SIG_DFL)
    raise SystemExit(0)


def _say(text: str) -> None:
    print(f"mcpkit: {text}", file=sys.stderr, flush=True)


# -- What changes ----------------------------------------------------------------------------


def changes(folder: Path, awake: Callable[[], bool] = lambda: False) -> Iterator[set[str]]:
    """The scripts that changed below a folder since the last time; nothing the first time, now and then, and when
    `awake` (asked twenty times a second) says so.
    """

    def look(places: set[str]) -> Found | None:
        return snapshot(str(folder), places, enter=lambda path: not _is_foreign(Path(path)))

    before: Found = {}
    for times, found in enumerate(looks(look, awake)):
        now = before if found is None else {path: found[path] for path in found if path.endswith(".py")}
        yield {path for path, _ in before.items() ^ now.items()} if times else set()
        before = now


def _is_foreign(folder: Path) -> bool:
    """Whether what is in a folder is not the user's own: installed packages, what tools keep for themselves."""
    name = folder.name
    return name.startswith(".") or name in ("node_modules", "__pycache__") or (folder / "pyvenv.cfg").exists()


def _shown(changed: set[str]) -> str:
    first, *others = sorted(changed)
    return first + (f" and {len(others)} more" if others else "")
