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
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from mcpkit.cli.load import TargetError, is_path, split_target
from mcpkit.transports.address import Address, listening

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS = 0.5
_CLEANUP_SECONDS = 3.0
"""How long a server may go on after its grace, until it is killed."""

Snapshot = Mapping[str, tuple[int, int, int]]


def supervise(target: str, words: Sequence[str], address: Address, grace: float) -> NoReturn:
    """Serve TARGET at `address` with `mcpkit WORDS`, and again after each change, until a signal ends this process.
    A server that ends by itself, because of an error in the script, stays down until the next change. Raises
    `TargetError`, `CannotListen`.
    """
    folder = scripts_folder(target)
    with listening(address) as bound:
        watched = changes(folder)
        server = _start(words, bound.fileno())
        for number in _SIGNALS:
            signal.signal(number, _leave)
        try:
            told = False
            while True:
                changed = next(watched)
                if changed:
                    _say(f"{_shown(changed, folder)} changed")
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


def changes(folder: Path) -> Iterator[set[str]]:
    """The scripts that changed below a folder since the last time; nothing, every half a second, while none does."""
    try:
        import watchfiles
    except ImportError:
        return _polled(folder, _snapshot(folder))
    return (
        {path for _, path in found}
        for found in watchfiles.watch(
            folder,
            watch_filter=lambda _, path: _is_script(folder, Path(path)),
            rust_timeout=int(_POLL_SECONDS * 1000),
            yield_on_timeout=True,
        )
    )


def _polled(folder: Path, before: Snapshot) -> Iterator[set[str]]:
    while True:
        time.sleep(_POLL_SECONDS)
        now = _snapshot(folder)
        yield {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        before = now


def _snapshot(folder: Path) -> Snapshot:
    found: dict[str, tuple[int, int, int]] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_foreign(Path(place, name))]
        for path in (os.path.join(place, name) for name in files if name.endswith(".py")):
            try:
                status = os.stat(path)
            except OSError:
                continue  # it has just gone
            found[path] = status.st_mtime_ns, status.st_size, status.st_ino
    return found


def _is_script(folder: Path, path: Path) -> bool:
    inside = [parent for parent in path.parents if folder in parent.parents]
    return path.suffix == ".py" and not any(map(_is_foreign, inside))


def _is_foreign(folder: Path) -> bool:
    """Whether what is in a folder is not the user's own: installed packages, what tools keep for themselves."""
    name = folder.name
    return name.startswith(".") or name in ("node_modules", "__pycache__") or (folder / "pyvenv.cfg").exists()


def _shown(changed: set[str], folder: Path) -> str:
    first, *others = sorted(os.path.relpath(path, folder) for path in changed)
    return first + (f" and {len(others)} more" if others else "")
