"""The configuration file of a client: read it, set one entry, and put it back whole or not at all.

These files belong to other programs and to the user. So an edit that is not certain is refused: a file that
does not parse is left alone, and what an edit gives is parsed and compared with what was meant before it is
written.
"""

import copy
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from mcpkit.cli import jsonedit, tomledit

Format: TypeAlias = Literal["json", "toml"]

_BOM = b"\xef\xbb\xbf"
# What an entry says about how a server is reached; anything else in it was added by the user or the client.
_OWNED = {"command", "args", "env", "url", "headers", "http_headers"}


class ConfigError(Exception):
    """A configuration file cannot be read, understood or written; it is as it was. The text is for people."""


class _Editor(NamedTuple):
    label: str
    parse: Callable[[str], dict[str, Any]]
    put: Callable[[str, Sequence[str], Mapping[str, Any], Mapping[str, Any]], str]
    hint: str


_EDITORS: Mapping[Format, _Editor] = {
    "json": _Editor("JSON", jsonedit.parse, jsonedit.put, " (comments and trailing commas are not read)"),
    "toml": _Editor("TOML", tomledit.parse, tomledit.put, ""),
}


@dataclass(frozen=True)
class Config:
    """A configuration file as it was read: its bytes (empty without a file), and `data`, what they say."""

    path: Path
    format: Format
    raw: bytes
    data: dict[str, Any]

    def find(self, keys: Sequence[str]) -> Any:
        """The value under the path `keys`, None when there is none.

        Raises ConfigError when something on the way is no object, for then nothing can be put there.
        """
        node: Any = self.data
        for depth, key in enumerate(keys):
            if not isinstance(node, dict):
                raise ConfigError(f"{self.path}: {'.'.join(keys[:depth])} is not an object")
            if key not in node:
                return None
            node = node[key]
        return node

    def kept(self, keys: Sequence[str], entry: Mapping[str, Any]) -> dict[str, Any]:
        """What the entry that is there holds beside the command: settings of the user, such as a time-out.

        They stay when `entry` replaces an entry of its own kind; those of an HTTP server mean nothing to a
        command.
        """
        old = self.find(keys)
        if not isinstance(old, dict) or old.keys() & {"command", "url"} != entry.keys() & {"command", "url"}:
            return {}
        return {name: value for name, value in old.items() if name not in _OWNED | entry.keys()}

    def put(self, keys: Sequence[str], entry: Mapping[str, Any]) -> bytes:
        """The bytes of the file with `entry` under the path `keys`; `raw` itself when it says that already.

        Raises ConfigError when the file is written in a form that cannot be extended without rewriting it.
        """
        kept = self.kept(keys, entry)
        wanted = {**entry, **kept}
        if self.find(keys) == wanted:
            return self.raw
        editor = _EDITORS[self.format]
        text = editor.put(_text(self.raw), keys, entry, kept)
        expected = copy.deepcopy(self.data)
        _set(expected, keys, wanted)
        with suppress(ValueError):
            if editor.parse(text) == expected:
                return (_BOM if self.raw.startswith(_BOM) else b"") + text.encode()
        raise ConfigError(
            f"{self.path}: {'.'.join(keys[:-1])} is written in a form that cannot be extended in place"
        )

    def save(self, content: bytes, *, private: bool) -> None:
        """Replace the file by `content` in one step, so that a reader sees the old bytes or the new.

        A symbolic link stays a link: the file it names is replaced. Mode and owner are kept; a new file is
        readable by its owner alone when `private`. Raises ConfigError when it cannot be written, or when
        another program has changed it since it was read.
        """
        try:
            _replace(Path(os.path.realpath(self.path)), self.raw, content, 0o600 if private else 0o666)
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror or error}") from error


def load(path: Path, kind: Format) -> Config:
    """Read and parse the file at `path`; a file that does not exist is an empty one.

    Raises ConfigError when it cannot be read, is not UTF-8 (a byte order mark is fine), or does not parse.
    """
    editor = _EDITORS[kind]
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raw = b""
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return Config(path, kind, raw, editor.parse(_text(raw)))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not plain {editor.label}: {error}{editor.hint}") from error


def snippet(kind: Format, keys: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The text of a file that holds nothing but `entry` under `keys`; it ends with a line feed."""
    return _EDITORS[kind].put("", keys, entry, {})


def _text(raw: bytes) -> str:
    return raw.removeprefix(_BOM).decode()


def _set(data: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    for key in keys[:-1]:
        data = data.setdefault(key, {})
    data[keys[-1]] = value


def _replace(path: Path, old: bytes, new: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same directory: a rename is atomic only inside one file system.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            _keep_mode_and_owner(path, descriptor)
            file.write(new)
            file.flush()
            os.fsync(descriptor)
        # Running clients write these files too. What they wrote since the file was read must not be undone.
        if (path.read_bytes() if path.exists() else b"") != old:
            raise ConfigError(f"{path} was changed by another program just now; run the command again")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _keep_mode_and_owner(path: Path, descriptor: int) -> None:
    if os.name != "posix" or not path.exists():
        return
    status = path.stat()
    with suppress(PermissionError):  # only root may give a file away
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, status.st_mode & 0o7777)


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable; directories cannot be opened on Windows, where it is not needed."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
