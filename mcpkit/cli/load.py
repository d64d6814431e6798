"""From TARGET to an app: `server.py`, `server.py:app`, `package.module:app`.

A script is imported under the name of its file, so that dataclasses, pickling and child processes find it
again; its `if __name__ == "__main__":` part does not run. Its folder goes to the end of the import path, not
to the beginning as Python itself does: a script that is called `calendar.py` or `h2.py` must not stand in for
the module of that name that a library imports later.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from mcpkit.app import App

_USUAL_NAMES = ("app", "server", "mcp")


class TargetError(Exception):
    """TARGET names no app; the message says what to write instead."""


def load_app(target: str) -> App:
    """The app that TARGET names. Raises `TargetError`; what the user's script raises passes through."""
    source, name = split_target(target)
    module = _load_script(Path(source)) if is_path(source) else _load_module(source)
    return _find(module, name, target)


def split_target(target: str) -> tuple[str, str | None]:
    """The script or module, and the name in it, if there is one."""
    source, colon, name = target.rpartition(":")
    if not colon or not name.replace(".", "").isidentifier():  # C:\\server.py has a colon, too
        return target, None
    return source, name


def is_path(source: str) -> bool:
    """Whether the first part of TARGET is a script's path, and no module's name."""
    return "://" not in source and (source.endswith(".py") or os.sep in source or "/" in source)


def _load_script(path: Path) -> ModuleType:
    path = path.absolute()
    if not path.is_file():
        raise TargetError(f"There is no file {path}")
    name = _module_name(path)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        if "attempted relative import" in str(error):
            error.add_note(
                f"{path} belongs to a package: name it as package.module:app, from the folder that holds the package."
            )
        raise
    return module


def _module_name(path: Path) -> str:
    """The file's name, unless a module of that name exists already."""
    name = path.stem
    free = name.isidentifier() and name not in sys.modules and name not in sys.stdlib_module_names
    return name if free and importlib.util.find_spec(name) is None else f"mcpkit_script_{name}"


def _load_module(name: str) -> ModuleType:
    if "://" in name:
        raise TargetError(f"{name} is the URL of a running server; here a script is needed (or --url)")
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(f"{name!r} is neither a script like server.py nor a module like package.module")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise TargetError(
                f"There is no module {name!r}; a script is named with its .py, as in server.py:app"
            ) from None
        raise


def _find(module: ModuleType, name: str | None, target: str) -> App:
    if name is not None:
        return _named(module, name, target)
    apps = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    for usual in _USUAL_NAMES:
        if usual in apps:
            return apps[usual]
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if apps:
        names = ", ".join(apps)
        raise TargetError(f"{target} has several apps ({names}): name one, as in {target}:{next(iter(apps))}")
    factory = getattr(module, "create_app", None)
    if callable(factory):
        return _made(factory, f"{target}:create_app")
    raise TargetError(f"{target} has no App: write app = App(...) in it, or name the app as {target}:NAME")


def _named(module: ModuleType, name: str, target: str) -> App:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise TargetError(f"{target}: there is no {name!r} in {module.__name__}")
    return value if isinstance(value, App) else _made(value, target)


def _made(factory: Any, target: str) -> App:
    if not callable(factory):
        raise TargetError(f"{target} is a {type(factory).__name__}, not an App")
    app = factory()
    if inspect.isawaitable(app) or not isinstance(app, App):
        raise TargetError(f"{target} returned a {type(app).__name__}, not an App")
    return app
