"""The npm packages that `node/package.json` names, installed once below `.tools/node`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from conformance.run import Unavailable, node

SCRIPTS = Path(__file__).with_name("node")
TOOLS = Path(__file__).parents[2] / ".tools" / "node"
STAMP = TOOLS / "installed"


def install() -> None:
    """Install them, unless they are there already; skip the test where that is impossible, but not in CI. Modules are
    looked for beside the script that imports them, so the scripts go there as well.
    """
    try:
        _install()
    except Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    for script in SCRIPTS.glob("*.mjs"):
        shutil.copy(script, TOOLS)


def _install() -> None:
    wanted = (SCRIPTS / "package.json").read_text(encoding="utf-8")
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return
    npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    TOOLS.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCRIPTS / "package.json", TOOLS)
    options = ["--prefix", str(TOOLS), "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    done = subprocess.run(
        [str(node()), str(npm), "install", *options], capture_output=True, text=True, timeout=100, check=False
    )
    if done.returncode != 0:
        raise Unavailable(f"npm could not install the clients: {done.stderr.strip()[-300:]}")
    STAMP.write_text(wanted, encoding="utf-8")


def command(script: str, *arguments: str) -> Sequence[str]:
    """The command that runs a script, or a file of a package."""
    return [str(node()), str(TOOLS / script), *arguments]
