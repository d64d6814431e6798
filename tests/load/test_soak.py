"""The program for long runs, for a few seconds."""

from __future__ import annotations

import pytest
from load import soak


def test_mixed_traffic_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    """`make soak`: no wrong answer, and nothing left behind."""
    assert soak.main(6, seed=1, growth=1.5) == 0, capsys.readouterr().out
