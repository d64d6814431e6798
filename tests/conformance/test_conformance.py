"""The official conformance suite."""

from __future__ import annotations

import os

import pytest
from conformance import run


@pytest.mark.timeout(run.SECONDS)
@pytest.mark.parametrize("revision", run.REVISIONS)
def test_the_official_suite_passes(revision: str) -> None:
    """Its requirement set of the revision: no check fails but the known ones, and they still do."""
    try:
        run.install()
    except run.Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    scenarios, known = run.run(revision), run.expected(revision)
    print(run.report(revision, scenarios, known))
    assert not run.judge(scenarios, known)


def test_a_known_failure_hides_no_message_of_a_wrong_shape() -> None:
    """Whatever a scenario is about, what the server sends has the shape that the schema gives it."""
    checks = [{"id": "wire-schema-valid", "status": "FAILURE"}, {"id": "another", "status": "FAILURE"}]
    assert len(run.judge([run.Scenario("it", checks)], {"it": "a reason"})) == 1


def scenario(name: str, *statuses: str) -> run.Scenario:
    return run.Scenario(name, [{"id": f"check-{n}", "status": status} for n, status in enumerate(statuses)])


@pytest.mark.parametrize(
    ("statuses", "entry", "problems"),
    [
        (["SUCCESS", "WARNING", "INFO", "SKIPPED"], None, 0),
        (["SUCCESS", "FAILURE"], None, 1),
        (["SUCCESS", "FAILURE"], "it", 0),
        (["SUCCESS", "FAILURE"], "it:check-1", 0),
        (["FAILURE", "FAILURE"], "it:check-1", 1),
        (["SUCCESS"], "it", 1),
        (["SUCCESS", "FAILURE"], "it:check-0", 2),
        (["WARNING", "SKIPPED"], None, 1),
        ([], None, 1),
    ],
)
def test_what_fails_is_known_and_what_is_known_fails(
    statuses: list[str], entry: str | None, problems: int
) -> None:
    """The list of known failures may hide nothing: neither a new failure, nor one that is gone, nor a scenario that
    has checked nothing.
    """
    known = {entry: "a reason"} if entry is not None else {}
    assert len(run.judge([scenario("it", *statuses)], known)) == problems
