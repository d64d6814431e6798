"""Every block of README.md is run: Python blocks are files, console blocks are commands with their output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hosts.process import started

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the README, each under the name in its first line."""
    folder = tmp_path_factory.mktemp("readme")
    for language, text in BLOCKS:
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", text)
            assert name, f"a Python block without a file name: {text[:60]!r}"
            (folder / name[1]).write_text(text, encoding="utf-8")
    return folder


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "HOME": str(folder)}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=60
    )


def steps(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that follows it."""
    return [
        (step.partition("\n")[0], step.partition("\n")[2])
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    ]


CONSOLE = [steps(text) for language, text in BLOCKS if language == "console"]
ADDRESS = "http://127.0.0.1:8000"
"""Where the README's servers listen; here each is given a free port."""


@contextmanager
def running(command: str, output: str, folder: Path) -> Iterator[str]:
    """A server that the README leaves running with `&`; the address at which it really listens."""
    words = f"cd {shlex.quote(str(folder))} && exec {command.removesuffix('&')} --port 0"
    with started(["sh", "-c", words], **environment(folder)) as server:
        address = server.expect(r"http://127\.0\.0\.1:[0-9]+")[0]
        if output.strip() != "...":
            assert server.output.replace(address, ADDRESS) == output
        yield address


@pytest.mark.parametrize("block", CONSOLE, ids=[block[0][0] for block in CONSOLE])
def test_console_blocks_print_what_they_show(block: list[tuple[str, str]], folder: Path) -> None:
    """What a newcomer copies from the README does what the README says."""
    address = ADDRESS
    with ExitStack() as servers:
        for command, output in block:
            if command.endswith("&"):
                address = servers.enter_context(running(command, output, folder))
                continue
            done = run(command.replace(ADDRESS, address), folder)
            assert done.returncode == 0, done.stderr
            if output.strip() != "...":
                assert done.stdout == output


@pytest.mark.parametrize(
    "name", re.findall(r"^# (\w+\.py)$", README.read_text(encoding="utf-8"), re.MULTILINE)
)
def test_python_blocks_serve_or_pass(name: str, folder: Path) -> None:
    """Scripts can be inspected without a warning; tests pass."""
    command = (
        f"{sys.executable} -m pytest -q -p no:cacheprovider {name}"
        if name.startswith("test_")
        else f"mcpkit inspect {name}"
    )
    done = run(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning:" not in done.stdout


def test_the_readme_names_every_command_and_option() -> None:
    """What is not documented does not exist for users (STYLE: Datasette)."""
    readme = README.read_text(encoding="utf-8")
    commands = re.findall(r"^    (\w+) ", run("mcpkit --help", README.parent).stdout, re.MULTILINE)
    assert commands
    for command in commands:
        assert f"mcpkit {command} " in readme
        options = re.findall(
            r"^  (?:-\w, )?(--[a-z-]+)", run(f"mcpkit {command} --help", README.parent).stdout, re.MULTILINE
        )
        for option in set(options) - {"--help"}:
            assert re.search(rf"{option}(?![a-z-])", readme), f"mcpkit {command} {option}"


def test_make_run_shows_the_main_job_at_work() -> None:
    """The first command of a newcomer: a real call through a spawned server, and how to register the server."""
    bin_folder = Path(sys.executable).parent
    done = run(f"make --no-print-directory --old-file=.venv/ready run BIN={bin_folder}", README.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tool remember" in done.stdout
    assert "mcp add" in done.stdout or "mcpServers" in done.stdout
