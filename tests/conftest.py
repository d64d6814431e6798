"""Async tests run on trio, each with a limit on the time it may take."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest
import trio

TEST_SECONDS = 30.0
OVER_HTTP = {"auth", "conformance", "http", "oauth", "sse"}
"""Folders whose tests are over HTTP, each but those that are marked with `once`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is run against each server; in other folders the tests say so themselves."""
    for item in items:
        if item.path.parent.name in OVER_HTTP and item.get_closest_marker("once") is None:
            item.add_marker(pytest.mark.over_http)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Run `async def` tests with trio."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}

    async def limited() -> None:
        with trio.fail_after(TEST_SECONDS):
            await pyfuncitem.obj(**arguments)

    trio.run(functools.partial(limited), strict_exception_groups=True)
    return True
