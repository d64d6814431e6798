"""What is on the disk, and when to look again. It blocks: for a thread of its own, or a program without a loop.

Rule 1. What counts is what a look finds. `watchfiles`, where it is installed, says when to look; so nothing depends on
        which events a system reports, in which order, and it may miss some. Without it we look twice a second.
Rule 2. A look notes the folders in which something could happen that it would see: those that it looked into, the
        nearest one above what is missing, and those of links and of what they lead to. Just these are watched, each
        without what is below.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from mcpkit.watching import Stamp

_POLL_SECONDS = 0.5
_QUIET_SECONDS = 5.0
"""After which we look although `watchfiles` is silent: network drives report nothing."""

_STEP_MS = 50
_GATHER_MS = 500
_CLOCK_TICK = 0.01
"""Seconds. A file that is written twice within a tick of the system's clock has the same time twice. So what has just
been written is looked at once more, after a tick.
"""

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG}

T = TypeVar("T")


def snapshot(
    root: str,
    places: set[str],
    *,
    depth: float = math.inf,
    enter: Callable[[str], bool] = lambda folder: True,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, Stamp] | None:
    """What there is at `root` and below (see `watching.Found`), as far as it can be read; None when the disk fails or
    `stopped` says that nobody wants to know any more. Adds to `places` the folders to watch for changes. Links are
    followed. `depth` is how many folders below `root` to look into, all unless given; `enter` is asked with the path of
    each.
    """
    found: dict[str, Stamp] = {}
    fresh: list[str] = []
    try:
        for name, status in _walk(root, places, depth, enter):
            if stopped():
                return None
            found[name] = _stamp(status)
            age = time.time_ns() - status.st_mtime_ns
            if stat.S_ISREG(status.st_mode) and 0 <= age < _CLOCK_TICK * 1e9:
                fresh.append(name)
        if fresh:
            time.sleep(2 * _CLOCK_TICK)
        for name in fresh:
            again = _status(os.path.join(root, name) if name else root)
            found[name] = found[name] if again is None else _stamp(again)
    except OSError:
        return None
    return found


def _walk(
    root: str, places: set[str], depth: float, enter: Callable[[str], bool]
) -> Iterator[tuple[str, os.stat_result]]:
    _note_links(root, places)
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [("", frozenset())]
    while pending:
        name, above = pending.pop()
        path = os.path.join(root, name) if name else root
        status = _status(path)
        if status is None:
            _note_nearest(path, places)
        elif stat.S_ISREG(status.st_mode):
            yield name, status
        elif stat.S_ISDIR(status.st_mode):
            yield f"{name}/", status
            identity = status.st_dev, status.st_ino
            level = name.count("/") + 1 if name else 0
            # A folder may be within itself: links lead back up.
            if identity not in above and level <= depth and (not name or enter(path)):
                within = above | {identity}
                pending += [(os.path.join(name, entry), within) for entry in _inside(path, places)]


def _status(path: str) -> os.stat_result | None:
    """None for what is not there, or cannot be seen. Raises OSError when the disk fails."""
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def _stamp(status: os.stat_result) -> Stamp:
    if stat.S_ISDIR(status.st_mode):
        return 0, 0, status.st_ino
    return status.st_mtime_ns, status.st_size, status.st_ino


def _inside(folder: str, places: set[str]) -> list[str]:
    """The names in a folder."""
    try:
        with os.scandir(folder) as entries:
            names: list[str] = []
            for entry in entries:
                names.append(entry.name)
                if entry.is_symlink():
                    _note_nearest(os.path.realpath(entry.path), places)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        _note_nearest(folder, places)
        return []
    places.add(folder)
    return names


def _note_links(path: str, places: set[str]) -> None:
    """Which folders hold the links on the way, and the end of the way."""
    above = path
    while (folder := os.path.dirname(above)) != above:
        if os.path.islink(above):
            places.add(folder)
        above = folder
    if not os.path.isdir(path):
        _note_nearest(os.path.realpath(path), places)


def _note_nearest(path: str, places: set[str]) -> None:
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    places.add(folder)


def looks(look: Callable[[set[str]], T], awake: Callable[[], bool]) -> Iterator[T]:
    """What `look` returns, now and again whenever something may have changed in the folders that it puts into its
    argument, or when `awake` (asked twenty times a second) says so.
    """
    watched: set[str] = set()
    changes = _changes(watched)
    changed: set[str] = set()
    while True:
        places: set[str] = set()
        yield look(places)
        # A folder that was itself changed may be another one by now, under the same path.
        if places != watched or changed & watched:
            watched = places
            changes = _changes(watched)
            changed = _wait(changes, lambda: True)
        else:
            changed = _wait(changes, awake)


def _wait(changes: Iterator[set[str] | None], awake: Callable[[], bool]) -> set[str]:
    began = time.monotonic()
    while True:
        changed = next(changes)
        waited = time.monotonic() - began
        if changed or awake() or waited >= (_POLL_SECONDS if changed is None else _QUIET_SECONDS):
            return changed or set()


def _changes(folders: set[str]) -> Iterator[set[str] | None]:
    """Twenty times a second, the paths of what has changed in `folders` since the first time; None where nobody can
    say: without folders or `watchfiles`, or when a folder has gone or the system's limit of watches is reached.
    """
    try:
        import watchfiles  # slow to import

        reported = watchfiles.watch(
            *folders,
            recursive=False,
            watch_filter=None,
            step=_STEP_MS,
            debounce=_GATHER_MS,
            rust_timeout=1,
            yield_on_timeout=True,
        )
        for found in reported if folders else ():
            yield {path for _, path in found}
    except (ImportError, OSError, RuntimeError):
        pass
    while True:
        time.sleep(_STEP_MS / 1000)
        yield None
