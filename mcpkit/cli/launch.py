"""The command under which a client starts a server.

A client starts it from a directory of its own with a bare environment. So nothing may depend on the current
directory, on PATH or on an activated virtual environment: interpreter and script are absolute, and what was
importable only here is made importable there.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcpkit.cli import load

# Run by the interpreter in a bare environment: where each module named in argv would come from.
_PROBE = """
import importlib.util, json, sys
specs = map(importlib.util.find_spec, sys.argv[1:])
print(json.dumps([spec and [*(spec.submodule_search_locations or ()), spec.origin][0] for spec in specs]))
"""


@dataclass(frozen=True)
class Launch:
    """An absolute interpreter, its arguments, and the variables that the client adds to its environment."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]


def launch(target: str, env: Mapping[str, str]) -> Launch:
    """How to start TARGET, which has been loaded in this process, from anywhere.

    The interpreter is the one that runs now, not what its symbolic link points at: an interpreter finds its
    virtual environment by the path under which it was started.
    """
    source, _ = load.split_target(target)  # what counts as a script is decided in one place
    modules = ["mcpkit"]
    if load.is_path(source):
        target = _absolute(source) + target.removeprefix(source)
    else:
        modules.append(source.partition(".")[0])
    # -P: a trio.py in the folder in which the client starts us must not stand in for ours.
    words = ("-P", "-m", "mcpkit", "run", target)
    return Launch(os.path.abspath(sys.executable), words, _with_python_path(env, _missing_roots(modules)))


def _absolute(source: str) -> str:
    """The absolute path of a script, tidied unless that leads elsewhere: `link/..` need not be here."""
    tidy = os.path.abspath(source)
    same = os.path.exists(tidy) and os.path.samefile(tidy, source)
    return tidy if same else str(Path(source).absolute())


def _missing_roots(modules: Sequence[str]) -> list[str]:
    """The directories that the interpreter needs on its path, beside its own, to find `modules`.

    A module can be importable here for the sake of the current directory or of PYTHONPATH, neither of which
    the client has. A PYTHONPATH entry is the one remedy that keeps the module what it is: as a script its
    relative imports would fail, and not every client can set a working directory. Asking a bare
    interpreter, instead of looking for the current directory in `sys.path`, also covers editable installs
    and `.pth` files.
    """
    here = {name: _origin(name) for name in modules}
    bare = dict(zip(modules, _bare_origins(modules), strict=True))
    return list(dict.fromkeys(str(Path(here[name]).parent) for name in modules if here[name] != bare[name]))


def _origin(module: str) -> str:
    """The directory of a package, or the file of a module, in this process."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise ModuleNotFoundError(f"module {module!r} was loaded and is gone", name=module)
    places: list[str] = [*(spec.submodule_search_locations or ()), spec.origin or ""]
    return os.path.abspath(places[0])


def _bare_origins(modules: Sequence[str]) -> list[str | None]:
    """The same in a new interpreter without the current directory and PYTHONPATH; None: not found."""
    outcome = subprocess.run(
        [sys.executable, "-P", "-c", _PROBE, *modules],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=60,
    )
    # The last line: a sitecustomize of the user may print. Nothing at all: nothing can be found there.
    lines = outcome.stdout.splitlines() or [b"[]"]
    found: list[str | None] = json.loads(lines[-1])
    return found or [None] * len(modules)


def _with_python_path(env: Mapping[str, str], roots: Sequence[str]) -> dict[str, str]:
    if not roots:
        return dict(env)
    own = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    return {**env, "PYTHONPATH": os.pathsep.join([*roots, *own])}
