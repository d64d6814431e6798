"""The clients that `mcpkit install` knows, as a table: where each keeps servers, how an entry looks.

A new client is a new row. Paths are computed from a `Machine`, so each platform's can be asked for on any
other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal, TypeAlias

from mcpkit.cli.configfile import Format

Scope: TypeAlias = Literal["local", "project", "user"]


@dataclass(frozen=True)
class Machine:
    """Where the command runs: `platform` as in `sys.platform`, the user's directories and variables."""

    platform: str
    home: PurePath
    cwd: PurePath
    environ: Mapping[str, str]

    def directory(self, variable: str) -> PurePath | None:
        """The directory that an environment variable names; None when it is unset or empty."""
        value = self.environ.get(variable)
        return type(self.home)(value) if value else None

    def app_data(self) -> PurePath:
        """Where desktop applications keep the user's settings: what Electron calls `appData`."""
        match self.platform:
            case "win32":
                return self.directory("APPDATA") or self.home / "AppData" / "Roaming"
            case "darwin":
                return self.home / "Library" / "Application Support"
            case _:
                return self.directory("XDG_CONFIG_HOME") or self.home / ".config"


@dataclass(frozen=True)
class Place:
    """A file that holds servers, and what a person does to see one that was added there."""

    file: Callable[[Machine], PurePath]
    see: str


@dataclass(frozen=True)
class Remote:
    """An entry for a server at a URL: its `url`, whether it says `"type": "http"` or `"sse"`, and where its headers
    are. `sse`: whether it may be a server of HTTP+SSE, the older transport.
    """

    typed: bool = False
    headers: str = "headers"
    sse: bool = True


@dataclass(frozen=True)
class Client:
    """One row: `key` is the member of the file that holds servers, `places` begins with the natural scope.

    `typed` entries say `"type": "stdio"` and always have `env`. A `strict` client refuses a server whose name
    has other characters than ASCII letters, digits, `-` and `_`. `remote` says how an entry for a URL looks; None
    where the file takes none, and `instead` what to do then.
    """

    label: str
    format: Format
    key: str
    places: Mapping[Scope, Place]
    remote: Remote | None
    typed: bool = False
    strict: bool = False
    instead: str = ""


def _claude_state(machine: Machine) -> PurePath:
    """Claude Code's own file: `~/.claude.json`, or in `CLAUDE_CONFIG_DIR`.

    Its first versions had `.config.json` in the configuration directory; where that is, it stays in use.
    """
    directory = machine.directory("CLAUDE_CONFIG_DIR")
    old = (directory or machine.home / ".claude") / ".config.json"
    return old if Path(old).exists() else (directory or machine.home) / ".claude.json"


def _codex_home(machine: Machine) -> PurePath:
    return machine.directory("CODEX_HOME") or machine.home / ".codex"


def _gemini_home(machine: Machine) -> PurePath:
    return machine.directory("GEMINI_CLI_HOME") or machine.home


CLIENTS: Mapping[str, Client] = {
    "claude-code": Client(
        "Claude Code",
        "json",
        "mcpServers",
        {
            "local": Place(_claude_state, "claude mcp list"),
            "project": Place(
                lambda machine: machine.cwd / ".mcp.json",
                "claude mcp list (pending until you start claude here and approve the folder and the server)",
            ),
            "user": Place(_claude_state, "claude mcp list"),
        },
        Remote(typed=True),
        typed=True,
        strict=True,
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        "json",
        "mcpServers",
        {
            "user": Place(
                lambda machine: machine.app_data() / "Claude" / "claude_desktop_config.json",
                "quit and start Claude Desktop, then Settings > Developer",
            ),
        },
        remote=None,
        instead="add the URL under Settings > Connectors there, or register a script, which Claude Desktop starts",
    ),
    "cursor": Client(
        "Cursor",
        "json",
        "mcpServers",
        {
            "user": Place(lambda machine: machine.home / ".cursor" / "mcp.json", "Cursor Settings > MCP"),
            "project": Place(lambda machine: machine.cwd / ".cursor" / "mcp.json", "Cursor Settings > MCP"),
        },
        Remote(),
    ),
    "vscode": Client(
        "VS Code",
        "json",
        "servers",
        {
            "project": Place(
                lambda machine: machine.cwd / ".vscode" / "mcp.json",
                "the command “MCP: List Servers” in this folder",
            ),
            "user": Place(
                lambda machine: machine.app_data() / "Code" / "User" / "mcp.json",
                "the command “MCP: List Servers”",
            ),
        },
        Remote(typed=True),
        typed=True,
    ),
    "codex": Client(
        "Codex",
        "toml",
        "mcp_servers",
        {
            "user": Place(lambda machine: _codex_home(machine) / "config.toml", "codex mcp list"),
            "project": Place(
                lambda machine: machine.cwd / ".codex" / "config.toml",
                "codex mcp list in this folder, once Codex trusts it",
            ),
        },
        Remote(headers="http_headers", sse=False),
        strict=True,
    ),
    "gemini": Client(
        "Gemini CLI",
        "json",
        "mcpServers",
        {
            "user": Place(
                lambda machine: _gemini_home(machine) / ".gemini" / "settings.json",
                "gemini mcp list (in a trusted folder)",
            ),
            "project": Place(
                lambda machine: machine.cwd / ".gemini" / "settings.json",
                "gemini mcp list in this folder, once it is trusted",
            ),
        },
        Remote(typed=True),
    ),
}
