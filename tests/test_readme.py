"""Every block of README.md is run: Python blocks are files, console blocks are commands with their output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "HOME": str(folder)}
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )


def steps(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that follows it."""
    return [
        (step.partition("\n")[0], step.partition("\n")[2]) for step in re.split(r"^\$ ", text, flags=re.M)[1:]
    ]


CONSOLE = [step for language, text in BLOCKS if language == "console" for step in steps(text)]


@pytest.mark.parametrize(("command", "output"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_console_blocks_print_what_they_show(command: str, output: str, folder: Path) -> None:
    """What a newcomer copies from the README does what the README says."""
    done = run(command, folder)
    assert done.returncode == 0, done.stderr
    if output.strip() != "...":
        assert done.stdout == output


@pytest.mark.parametrize("name", re.findall(r"^# (\w+\.py)$", README.read_text(encoding="utf-8"), re.M))
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
    help_text = run("mcpkit --help", README.parent).stdout
    commands = re.findall(r"^    (\w+) ", help_text, re.M)
    assert commands
    for command in commands:
        assert f"mcpkit {command} " in README.read_text(encoding="utf-8")
