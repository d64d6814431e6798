"""What a newcomer gets wrong at the command line, and what is said then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
from mcpkit import App

app = App("notes")


@app.tool
def write(name: str) -> str:
    \"\"\"Keep a note.\"\"\"
    return name
"""


def mcpkit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "mcpkit", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "options", [("--port", "8002"), ("--host", "0.0.0.0"), ("--path", "/x"), ("--allow-host", "example.com")]
)
def test_options_of_http_need_http(folder: Path, options: tuple[str, str]) -> None:
    """An option that would be ignored is an error: whoever gives it expects a server at that address."""
    done = mcpkit(folder, "run", "server.py", *options)
    assert done.returncode == 2
    assert done.stderr == f"mcpkit: {options[0]} needs --transport http\n"


@pytest.mark.parametrize(
    "options", [("--with-sse",), ("--session-idle", "9"), ("--with-sse", "--session-idle", "9")]
)
def test_options_that_mean_nothing_to_sse_are_errors(folder: Path, options: tuple[str, ...]) -> None:
    """The same: nothing is beside a stream that is served alone, and none is forgotten while it is open."""
    done = mcpkit(folder, "run", "server.py", "--transport", "sse", *options)
    assert done.returncode == 2
    named = ", ".join(option for option in options if option.startswith("--"))
    assert done.stderr.startswith(f"mcpkit: {named} needs --transport http: with sse alone, ")


@pytest.mark.parametrize(
    "options",
    [
        ("--with-sse", "--path", "/sse"),
        ("--with-sse", "--path", "/a/message/"),
        ("--transport", "sse", "--path", "/message"),
    ],
)
def test_a_path_that_is_taken_is_a_usage_error(folder: Path, options: tuple[str, ...]) -> None:
    """HTTP+SSE has paths of its own, beside the endpoint's."""
    done = mcpkit(folder, "run", "server.py", "--transport", "http", *options)
    assert done.returncode == 2
    assert done.stderr == f"mcpkit: path {options[-1]!r} is where HTTP+SSE would be: take another one\n"


def test_a_path_without_its_slash_is_a_usage_error(folder: Path) -> None:
    """Said in one line, before the script is imported."""
    done = mcpkit(folder, "run", "server.py", "--transport", "http", "--path", "mcp")
    assert (done.returncode, done.stderr) == (2, "mcpkit: path starts with a slash, which 'mcp' does not\n")


def test_an_unknown_tool_is_answered_with_those_that_there_are(folder: Path) -> None:
    """A typo in a tool's name."""
    done = mcpkit(folder, "call", "server.py", "wirte", "name=a")
    assert done.returncode == 1
    assert "mcpkit: there is no tool 'wirte'; there are: write\n" in done.stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (".", "'.' is neither a script like server.py nor a module like package.module"),
        ("a-b", "'a-b' is neither a script like server.py nor a module like package.module"),
        ("http://127.0.0.1:8000/mcp", "is the URL of a running server; here a script is needed (or --url)"),
    ],
)
def test_a_target_that_is_none_says_what_is_needed(folder: Path, target: str, said: str) -> None:
    """Not a traceback of the import system."""
    done = mcpkit(folder, "run", target)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_syntax_error_is_shown_without_the_frames_of_the_machinery(folder: Path) -> None:
    """PITFALLS: a script that fails to import: what failed, on standard error, and exit code 1."""
    (folder / "server.py").write_text("app = (\n", encoding="utf-8")
    done = mcpkit(folder, "run", "server.py")
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert "server.py" in done.stderr
    assert "importlib" not in done.stderr


def test_registering_over_another_entry_says_so(folder: Path) -> None:
    """Nothing is replaced silently."""
    (folder / "other.py").write_text(SCRIPT, encoding="utf-8")
    words = ("--client", "cursor", "--scope", "project")
    assert "in place of" not in mcpkit(folder, "install", "server.py", *words).stdout
    assert (
        "Registered notes in place of another entry" in mcpkit(folder, "install", "other.py", *words).stdout
    )
