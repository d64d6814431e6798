"""A user's machine in a temporary directory, on which servers are registered."""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcpkit.cli import install
from mcpkit.cli.clients import Scope

SERVER = "from mcpkit import App\n\napp = App({name!r})\n\n\n@app.tool\ndef two() -> int:\n    return 2\n"
OWN_VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "XDG_CONFIG_HOME",
    "APPDATA",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)

# client, scope, file, the way to the servers in it, whether entries say their type
PLACES: list[tuple[str, Scope, str, tuple[str, ...], bool]] = [
    ("claude-code", "local", "home/.claude.json", ("projects", "PROJECT", "mcpServers"), True),
    ("claude-code", "user", "home/.claude.json", ("mcpServers",), True),
    ("claude-code", "project", "project/.mcp.json", ("mcpServers",), True),
    ("claude-desktop", "user", "home/.config/Claude/claude_desktop_config.json", ("mcpServers",), False),
    ("cursor", "user", "home/.cursor/mcp.json", ("mcpServers",), False),
    ("cursor", "project", "project/.cursor/mcp.json", ("mcpServers",), False),
    ("vscode", "project", "project/.vscode/mcp.json", ("servers",), True),
    ("vscode", "user", "home/.config/Code/User/mcp.json", ("servers",), True),
    ("codex", "user", "home/.codex/config.toml", ("mcp_servers",), False),
    ("codex", "project", "project/.codex/config.toml", ("mcp_servers",), False),
    ("gemini", "user", "home/.gemini/settings.json", ("mcpServers",), False),
    ("gemini", "project", "project/.gemini/settings.json", ("mcpServers",), False),
]
every_place = pytest.mark.parametrize(("client", "scope", "file", "keys", "typed"), PLACES)


@dataclass
class Desk:
    """A user's machine in a temporary directory: a home, a project with `server.py`, and an empty PATH."""

    root: Path
    capture: pytest.CaptureFixture[str]

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def server(self) -> Path:
        return self.project / "server.py"

    def install(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of `mcpkit install WORDS`."""
        parser = argparse.ArgumentParser()
        install.add_arguments(parser)
        code = install.run(parser.parse_args(words))
        captured = self.capture.readouterr()
        return code, captured.out, captured.err

    def files(self) -> dict[str, bytes]:
        """Every file, to see that nothing was written."""
        found = (path for path in self.root.rglob("*") if "__pycache__" not in path.parts and path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}

    def servers(self, file: str, keys: tuple[str, ...]) -> dict[str, Any]:
        """The servers that a client finds in its file."""
        text = (self.root / file).read_text(encoding="utf-8")
        node: Any = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
        for key in keys:
            node = node[str(self.project) if key == "PROJECT" else key]
        return node


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    desk = Desk(tmp_path.resolve(), capsys)
    for directory in ("home", "project", "bin"):
        (desk.root / directory).mkdir()
    desk.server.write_text(SERVER.format(name="demo"), encoding="utf-8")
    for variable in OWN_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(desk.root / "home"))
    monkeypatch.setenv("PATH", str(desk.root / "bin"))
    monkeypatch.chdir(desk.project)
    # Scripts are imported into this process; the next test must not see them.
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    yield desk
    for name in set(sys.modules) - modules:
        if str(desk.root) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
