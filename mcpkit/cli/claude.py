"""Claude Code's own command, `claude mcp add`, as the way into Claude Code's own file.

A running Claude Code holds `~/.claude.json` in memory and writes it often, so its own command is the safest
way in. Two habits of it (seen in 2.1.197) shape this module: it refuses to add a name that is there, so a
second registration removes first; and it replaces a file that it cannot parse by a new one, so the caller
must have parsed that file before.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SECONDS = 60.0
_ADD_KEYS = {"type", "command", "args", "env"}


class ClaudeError(Exception):
    """`claude` did not do what it was asked to; the text is for people."""


def project_directory(cwd: Path) -> Path:
    """The directory under which Claude Code files what is local to a project.

    That is the root of the git repository around `cwd`, or `cwd`. All worktrees of a repository share the
    entry of its main one.
    """
    cwd = cwd.resolve()
    for directory in (cwd, *cwd.parents):
        mark = directory / ".git"
        if mark.is_dir():
            return directory
        if mark.is_file():
            return _main_worktree(mark) or directory
    return cwd


def add_words(scope: str, name: str, entry: Mapping[str, Any]) -> list[str]:
    """The arguments that make `claude` add a command `entry`; an entry with further settings goes as JSON."""
    if entry.keys() - _ADD_KEYS:
        return ["mcp", "add-json", "--scope", scope, name, json.dumps(entry)]
    env = [word for key, value in entry["env"].items() for word in ("-e", f"{key}={value}")]
    return ["mcp", "add", "--scope", scope, name, *env, "--", entry["command"], *entry["args"]]


def register(claude: str, scope: str, name: str, entry: Mapping[str, Any], old: object) -> None:
    """Add `entry` through the executable `claude`, in place of `old` (None when there is none).

    Raises ClaudeError with the program's own words when it refuses; `old` is put back then.
    """
    remove = ["mcp", "remove", "--scope", scope, name]
    add = add_words(scope, name, entry)
    if old is not None:
        _run(claude, remove)
    problem = _run(claude, add)
    if old is None and "already exists" in problem:
        # Not where the caller looked for it: another version may keep it in another place.
        _run(claude, remove)
        problem = _run(claude, add)
    if problem and old is not None:
        lost = _run(claude, ["mcp", "add-json", "--scope", scope, name, json.dumps(old)])
        problem += (
            f"\nThe earlier entry was removed and could not be put back: {json.dumps(old)}" if lost else ""
        )
    if problem:
        raise ClaudeError(problem)


def _run(claude: str, words: Sequence[str]) -> str:
    """Run `claude` and give what went wrong, or an empty string."""
    shown = " ".join(["claude", *words[:2]])
    try:
        outcome = subprocess.run(
            [claude, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"`{shown}` ({claude}) did not end within {_SECONDS:g} seconds"
    except OSError as error:
        return f"`{shown}` ({claude}) cannot be started: {error.strerror or error}"
    if outcome.returncode == 0:
        return ""
    said = (outcome.stderr.strip() or outcome.stdout.strip()) or "it said nothing"
    return f"`{shown}` failed with exit code {outcome.returncode}: {said}"


def _main_worktree(mark: Path) -> Path | None:
    """The main worktree of the repository that a `.git` file points into; None for a submodule."""
    try:
        git = mark.parent / mark.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        common = (git / (git / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, UnicodeDecodeError):
        return None
    return common.parent if common.name == ".git" else common
