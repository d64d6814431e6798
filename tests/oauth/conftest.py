"""One server of examples/oauth.py for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hosts.process import serving_http
from oauth.browser import EXAMPLE, origin_of


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Where the example is served."""
    with serving_http(EXAMPLE) as (process, url):
        yield origin_of(url)
        assert "Traceback" not in process.output
