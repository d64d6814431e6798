"""The folder says what a file may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mcpkit"
FILES = sorted(PACKAGE.rglob("*.py"))
RIM = {"testing", "middleware"}
"""Files beside the model that reach outward: a client of the user's tests drives the app through a transport, and
middleware keeps time.
"""

SEAMS = {"mcpkit.transports.http", "mcpkit.auth.base"}
"""Files that only say what others give each other: HTTP without a server, authentication without a way to do it."""

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "protocol": ("protocol",),
    "model": ("protocol", "model", "stores", "seam"),
    "stores": ("stores",),
    "seam": ("model", "stores", "seam"),
    "engine": ("protocol", "model", "stores", "engine"),
    "auth": ("protocol", "model", "stores", "seam", "auth"),
    "transports": ("protocol", "model", "stores", "seam", "auth", "engine", "transports"),
    "cli": ("protocol", "model", "stores", "seam", "auth", "engine", "transports", "rim", "cli"),
    "rim": ("protocol", "model", "stores", "engine", "transports"),
}
THIRD_PARTY: dict[str, set[str]] = {
    "protocol": {"msgspec"},
    "model": {"msgspec"},
    "stores": {"trio"},
    "seam": {"msgspec"},
    "auth": {"msgspec", "trio", "joserfc", "httpx", "cryptography"},
    "engine": {"msgspec", "trio", "outcome"},
    "transports": {"msgspec", "trio", "outcome", "sniffio", "hypercorn", "h2", "httptools", "httpx"},
    "cli": {"msgspec", "trio"},
    "rim": {"msgspec", "trio"},
}
IMPURE = {
    "time",
    "random",
    "secrets",
    "socket",
    "os",
    "subprocess",
    "threading",
    "asyncio",
    "pathlib",
    "datetime",
}
"""What would make the protocol depend on more than its input."""


def module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def ring(name: str) -> str:
    if name in SEAMS:
        return "seam"
    parts = name.split(".")
    if len(parts) > 1 and parts[1] in MAY_IMPORT:
        return parts[1]
    if parts[-1] == "__main__":
        return "cli"
    return "rim" if len(parts) > 1 and parts[1] in RIM else "model"


def imports(path: Path, *, top_level: bool) -> Iterator[str]:
    """The modules that a file imports; `top_level` leaves out what is imported inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _outside_functions(tree) if top_level else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (
                    inner
                    if (PACKAGE.parent / (inner.replace(".", "/") + ".py")).exists()
                    else str(node.module)
                )


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _outside_functions(child)


@pytest.mark.parametrize("path", FILES, ids=module)
def test_files_import_only_inward(path: Path) -> None:
    """DESIGN section 2: protocol, model, engine, transports, command line; never the other way."""
    own = ring(module(path))
    for name in imports(path, top_level=True):
        if name.startswith("mcpkit"):
            assert ring(name) in MAY_IMPORT[own], f"{module(path)} imports {name}"
        else:
            top = name.partition(".")[0]
            assert top in sys.stdlib_module_names or top in THIRD_PARTY[own], f"{module(path)} imports {name}"


@pytest.mark.parametrize("path", [path for path in FILES if ring(module(path)) == "protocol"], ids=module)
def test_the_protocol_is_pure(path: Path) -> None:
    """No clock, no chance, no environment: the same bytes always mean the same."""
    assert not {name.partition(".")[0] for name in imports(path, top_level=False)} & IMPURE


def test_nothing_imports_in_a_cycle() -> None:
    """Not even for type checking."""
    graph = {
        module(path): {name for name in imports(path, top_level=True) if name.startswith("mcpkit")}
        for path in FILES
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=module)
def test_no_file_outgrows_a_sitting(path: Path) -> None:
    """At most 500 lines, except the catalogue of types."""
    limit = 700 if module(path) == "mcpkit.protocol.types" else 500
    assert len(path.read_text(encoding="utf-8").splitlines()) <= limit


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if "protocol" not in path.parts or path.stem not in ("revisions", "eras")],
    ids=module,
)
def test_revisions_are_named_in_one_place(path: Path) -> None:
    """A revision's date in code (not in prose) stands only in `revisions` and `eras`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    dates = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
    assert not [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in dates
    ]


def test_the_public_names_are_on_purpose() -> None:
    """`mcpkit` exports what DESIGN lists and this version serves, and no more."""
    import mcpkit

    public = {name for name in vars(mcpkit) if not name.startswith("_")}
    submodules = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.name for path in PACKAGE.iterdir() if path.is_dir()
    }
    assert set(mcpkit.__all__) == public - submodules
    assert sorted(mcpkit.__all__, key=str) == list(mcpkit.__all__)


def test_importing_has_no_side_effect_and_is_light() -> None:
    """Importing mcpkit loads no event loop, and neither configures logging nor filters warnings."""
    code = (
        "import logging, sys, warnings; before = list(warnings.filters), list(logging.root.handlers)\n"
        "import mcpkit\n"
        "assert before == (list(warnings.filters), list(logging.root.handlers))\n"
        "print(*sorted({'trio', 'asyncio', 'argparse', 'mimetypes', 'jsonschema', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == ""
