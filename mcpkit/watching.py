"""What an app watches: which files stand behind which resources. Nothing here touches the disk.

Rule 1. A plain URI belongs to one file or folder. A folder counts with all that is below it.
Rule 2. A template belongs to all files that match a pattern with the same variables. Paths are matched like URIs
        (`protocol.uritemplate`), percent-encoded segment by segment: so `{name}` stays within a segment, `{+path}` and
        `{/path*}` do not, and any name goes there and back.
Rule 3. What has happened is the difference between what was there and what is there, whoever has noticed it and
        however often. So a file that was saved by renaming another over it has changed, and has not vanished.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping

from mcpkit.checks import check_uri
from mcpkit.protocol.uritemplate import UriTemplate, encode, is_template

Stamp = tuple[int, int, int]
"""Time of the last change (in nanoseconds), size (in bytes) and inode of a file; of a folder only its inode."""

Found = Mapping[str, Stamp]
"""What was found at a path and below: by path from there, "" for a file at the path itself. The path of a folder ends
with a slash.
"""

_EXPRESSION = re.compile(r"(\{[^{}]*\})")
_MEANINGLESS = re.compile(r"\{[#?&;]")


class Watch:
    """One file, folder, or family of files. `root` is the absolute path to look at; `depth` says how many folders
    below it to look into. Raises TypeError for what is no URI or path, ValueError for one that is
    malformed, or where the variables of URI and path differ.
    """

    def __init__(self, uri: str, path: str | os.PathLike[str]) -> None:
        if not isinstance(uri, str):
            raise TypeError(f"a resource is named by its URI, a string, not by {uri!r}")
        check_uri(uri)
        place = os.fspath(path)
        if not isinstance(place, str):
            raise TypeError(f"{uri!r} cannot be watched: {place!r} is no path, which is a string or a Path")
        if not place or not _can_be_named(place):
            raise ValueError(f"{uri!r} cannot be watched: {place!r} is no path")
        self.uri = uri
        self.template = UriTemplate(uri) if is_template(uri) else None
        self._pattern: UriTemplate | None = None
        self._lead = ""
        self.depth = math.inf
        folder, rest = _split(place)
        self.root = os.path.abspath(folder)
        if self.template is not None or rest:
            self._match_files(self.template or UriTemplate(uri), place, rest)

    def _match_files(self, template: UriTemplate, path: str, rest: str) -> None:
        pattern = _pattern(path, rest)
        if set(template.names) != set(pattern.names) or template.exploded != pattern.exploded:
            raise ValueError(
                f"the URI {self.uri!r} has {_listed(template)}, the path {path!r} has {_listed(pattern)}: "
                "write the same variables into both"
            )
        self._pattern = pattern
        self._lead = "/" if rest.startswith("{/") else ""
        if not pattern.reserved and not pattern.exploded:
            self.depth = pattern.expand(dict.fromkeys(pattern.names, "x")).count("/") - len(self._lead)

    def member(self, path: str) -> str | None:
        """The URI of the resource behind a file, given by its path from `root`; None when there is none."""
        assert self.template is not None
        assert self._pattern is not None
        if path.endswith("/"):  # a folder
            return None
        try:
            values = self._pattern.match(self._lead + _encoded(path))
        except UnicodeEncodeError:  # a name that is no text has no URI
            return None
        if values is None:
            return None
        for name in self.template.reserved:  # there an escape would be left as it is
            values[name] = str(values[name]).replace("%", "%25")
        return self.template.expand(values)

    def difference(self, before: Found, now: Found) -> tuple[bool, set[str]]:
        """What the difference between two looks means to clients: whether resources have appeared or vanished, and the
        URIs of all that have changed.
        """
        changed = {path for path, _ in before.items() ^ now.items()}
        if self.template is None:
            return bool(before) != bool(now), {self.uri} if changed else set()
        members = {path: uri for path in changed if (uri := self.member(path)) is not None}
        return any((path in before) != (path in now) for path in members), set(members.values())


def _can_be_named(path: str) -> bool:
    """Whether a file can have such a path."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _split(path: str) -> tuple[str, str]:
    """The folder in front of the first expression, and the rest; a path without expressions has none."""
    head, brace, tail = path.partition("{")
    if not brace or tail.startswith("/"):
        return head or ".", brace + tail
    folder, slash, start = head.rpartition("/")
    return folder + slash or ".", start + brace + tail


def _pattern(path: str, rest: str) -> UriTemplate:
    if _MEANINGLESS.search(rest):
        raise ValueError(
            f"the path {path!r}: only {{x}}, {{+x}}, {{.x}}, {{/x}} and {{/x*}} mean something in a path"
        )
    parts = _EXPRESSION.split(rest)
    try:
        return UriTemplate("".join(part if is_template(part) else _encoded(part) for part in parts))
    except ValueError as error:
        raise ValueError(f"the path {path!r} is no pattern: {error}") from None


def _encoded(path: str) -> str:
    return "/".join(encode(segment) for segment in path.split("/"))


def _listed(template: UriTemplate) -> str:
    names = [f"{{{'/' + name + '*' if name in template.exploded else name}}}" for name in template.names]
    return " and ".join(names) or "no variable"


class Watches:
    """All that an app watches. It may grow at any time, from any thread; those who serve the app are told."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, str], Watch] = {}
        self._outlets: tuple[Callable[[], None], ...] = ()

    def add(self, uri: str, path: str | os.PathLike[str]) -> None:
        """See `App.watch`."""
        watch = Watch(uri, path)
        if self._watches.setdefault((uri, os.path.abspath(path)), watch) is watch:
            for outlet in self._outlets:
                outlet()

    def all(self) -> tuple[Watch, ...]:
        """Those there are now."""
        return tuple(self._watches.values())

    def attach(self, outlet: Callable[[], None]) -> None:
        """Call a function when there is more to watch, from any thread."""
        self._outlets = (*self._outlets, outlet)

    def detach(self, outlet: Callable[[], None]) -> None:
        """Call it no more."""
        self._outlets = tuple(other for other in self._outlets if other != outlet)
