"""`make bench` itself: that it compares what it says, for a moment each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from bench.compare import WORKLOADS

TESTS = Path(__file__).parents[1]


def test_the_comparison_prints_a_table() -> None:
    """README, "How fast it is": every server answers every call rightly, and each row has its figures."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.compare", "--rounds", "1", "--seconds", "0.02"],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    assert done.stderr == ""
    head, _, *table = done.stdout.splitlines()
    assert re.match(r"mcpkit \S+, mcp \S+, trio \S+, msgspec \S+; Python ", head)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]
    assert [row[0] for row in rows] == [workload.name for workload in WORKLOADS]
    for row in rows:
        assert float(row[1].replace(",", "")) > 0, row
        assert float(row[2]) > 0, row
        if sys.platform == "linux":
            assert float(row[4]) > 0, row


def test_the_readme_shows_what_is_compared() -> None:
    """Its table has a row for each workload, in order."""
    readme = (TESTS.parent / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## How fast it is")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:stdio|HTTP)[^|]*?) +\|", section, re.MULTILINE)
    assert rows == [workload.name for workload in WORKLOADS]
