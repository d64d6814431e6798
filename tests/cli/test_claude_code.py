"""The real Claude Code starts what `mcpkit install` registered. Its health check needs no account."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hosts.process import serving_http

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools" / "node_modules" / ".bin"
CLAUDE = os.environ.get("MCPKIT_CLAUDE") or shutil.which("claude") or shutil.which("claude", path=str(TOOLS))

pytestmark = pytest.mark.skipif(
    CLAUDE is None and not os.environ.get("CI"),  # there, what is missing is installed
    reason="no Claude Code: `claude` is neither on PATH nor in .tools, and MCPKIT_CLAUDE is unset",
)

SERVER = """\
from mcpkit import App

app = App("My shop")


@app.tool
def add(a: int, b: int) -> int:
    return a + b
"""


class Home:
    """A throw-away home and a project in it, with or without `claude` on the PATH of `mcpkit`."""

    def __init__(self, root: Path) -> None:
        assert CLAUDE is not None
        self.home, self.project = root / "home", root / "project with süß space"
        self.home.mkdir()
        self.project.mkdir()
        (self.project / "server.py").write_text(SERVER, encoding="utf-8")
        tools = root / "bin"
        tools.mkdir()
        (tools / "claude").symlink_to(os.path.abspath(CLAUDE))
        # Node, should `claude` be a script, is found behind it.
        self.with_claude = os.pathsep.join([str(tools), os.environ["PATH"]])

    def run(self, *command: str, path: str) -> str:
        """What a command prints on stdout; it must succeed."""
        environ = {"HOME": str(self.home), "PATH": path, "DISABLE_AUTOUPDATER": "1", "NO_COLOR": "1"}
        done = subprocess.run(
            command, cwd=self.project, env=environ, capture_output=True, stdin=subprocess.DEVNULL, timeout=100
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def mcpkit(self, *words: str, path: str) -> str:
        return self.run(sys.executable, "-m", "mcpkit", *words, path=path)

    def listed(self, name: str) -> str:
        """The line of `claude mcp list` about one server."""
        lines = self.run("claude", "mcp", "list", path=self.with_claude).splitlines()
        (line,) = [line for line in lines if line.startswith(f"{name}:")]
        return line


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("scope", ["local", "user"])
@pytest.mark.parametrize("through_claude", [True, False])
def test_a_registered_server_is_connected(home: Home, scope: str, through_claude: bool) -> None:
    """DESIGN section 1: register it with `mcpkit install server.py`, and it works the first time.

    Both ways into Claude Code's file, its own command and ours without it, must give what it reads.
    """
    path = home.with_claude if through_claude else os.defpath
    if not through_claude and shutil.which("claude", path=path):
        pytest.skip(f"`claude` is in {path}, so it cannot be absent")
    home.mcpkit("install", "server.py", "--scope", scope, path=path)
    assert "Connected" in home.listed("My-shop")


def test_a_second_registration_replaces_the_first(home: Home) -> None:
    """PITFALLS, "Registering with clients": twice; and the script has moved in between."""
    home.mcpkit("install", "server.py", path=home.with_claude)
    assert "already registered" in home.mcpkit("install", "server.py", path=home.with_claude)
    (home.project / "server.py").rename(home.project / "moved.py")
    home.mcpkit("install", "moved.py", "--env", "KEY=a b=c", path=home.with_claude)
    line = home.listed("My-shop")
    assert "moved.py" in line
    assert "Connected" in line


def test_a_project_file_waits_for_approval(home: Home) -> None:
    """CLIENTS.md: `.mcp.json` servers are pending until the user trusts the folder and the server."""
    out = home.mcpkit("install", "server.py", "--scope", "project", path=home.with_claude)
    assert "approve" in out
    assert "Pending approval" in home.listed("My-shop")


@pytest.mark.parametrize("through_claude", [True, False])
def test_a_server_at_a_url_is_connected(home: Home, through_claude: bool) -> None:
    """A running server is registered by its URL, and calls itself by its own name."""
    path = home.with_claude if through_claude else os.defpath
    if not through_claude and shutil.which("claude", path=path):
        pytest.skip(f"`claude` is in {path}, so it cannot be absent")
    with serving_http(home.project / "server.py") as (_, url):
        words = ("--transport", "http", "--url", url, "--header", "X-Team=a b")
        home.mcpkit("install", *words, path=path)
        line = home.listed("My-shop")
    assert url in line
    assert "Connected" in line


@pytest.mark.parametrize("through_claude", [True, False])
def test_a_server_of_the_older_transport_is_connected(home: Home, through_claude: bool) -> None:
    """CLIENTS.md: it opens the stream, posts where that says, and speaks 2025-11-25 there as well."""
    path = home.with_claude if through_claude else os.defpath
    if not through_claude and shutil.which("claude", path=path):
        pytest.skip(f"`claude` is in {path}, so it cannot be absent")
    with serving_http(home.project / "server.py", "--transport", "sse", "--verbose") as (process, url):
        home.mcpkit("install", "--transport", "sse", "--url", url, path=path)
        line = home.listed("My-shop")
        assert f"{url} (SSE)" in line
        assert "Connected" in line
        process.expect(r"initialize id=\S+ ok")
        assert "Traceback" not in process.output


def test_a_running_server_is_connected(home: Home) -> None:
    """CLIENTS.md: over HTTP it sends its version and session headers, opens the session's own stream, and leaves
    without DELETE.
    """
    with serving_http(home.project / "server.py", "--verbose") as (process, url):
        home.run("claude", "mcp", "add", "--transport", "http", "My-shop", url, path=home.with_claude)
        line = home.listed("My-shop")
        assert url in line
        assert "Connected" in line
        process.expect(
            r"(initialize|server/discover) \S+ 200"
        )  # by release: 2.1.332 probes for the stateless era
        assert "Traceback" not in process.output
