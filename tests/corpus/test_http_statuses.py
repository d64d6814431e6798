"""The golden corpus over HTTP: the status of every answer follows from its code and its era."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pairs
import pydantic
import pytest
import replay
from mcp_types import _v2026_07_28 as stateless
from pairs import Case
from support import OVER_HTTP

STATUSES = {
    "handshake": {-32700: 400, -32600: 400},
    "stateless": {
        -32700: 400,
        -32600: 400,
        -32601: 404,
        -32020: 400,
        -32021: 400,
        -32022: 400,
    },
}
"""By era and code, where it is not 200. In the handshake era 404 would say that the session is over (HL-21)."""

CASES = [case for case in pairs.cases().values() if "http" in case.transports]


def expected(case: Case) -> Iterator[int | None]:
    """The status of each line that a case sends; None where the client leaves before there is one."""
    for line in case.lines:
        if case.era == "stateless" and leaves(line, case.lines):
            yield None
        else:
            yield status(case, line)


def leaves(line: Any, lines: list[Any]) -> bool:
    """Whether a line is a cancellation that stands for leaving a response, or a call whose response is left before it
    begins.
    """
    if is_cancellation(line):
        return any("id" in other and of(other, "id") == of(line, "params", "requestId") for other in lines)
    cancelled = [of(other, "params", "requestId") for other in lines if is_cancellation(other)]
    return of(line, "id") in cancelled and of(line, "params", "name") == "hang"


def is_cancellation(line: Any) -> bool:
    """Whether the client cancels something."""
    return bool(of(line, "method") == "notifications/cancelled")


def of(value: Any, *path: str) -> Any:
    """What stands at a path; None for nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def status(case: Case, line: Any) -> int:
    """The table, and 202 for what is not answered (HM-10, HL-03)."""
    error = refusal(case, line)
    if error is not None:
        malformed = error["code"] == -32602 and not has_envelope(case, line)
        return 400 if malformed else STATUSES[case.era].get(error["code"], 200)
    asked = [message for message in pairs.messages([line]) if "method" in message and "id" in message]
    return 200 if asked else 202


def refusal(case: Case, line: Any) -> dict[str, Any] | None:
    """The error that answers a line as a whole. What is refused inside a batch has no status of its own; of two
    requests with one id, the later is refused.
    """
    request_id = of(line, "id")
    if [other for other in case.lines if of(other, "id") == request_id][-1] is not line:
        return None
    for reply in case.replies:
        if isinstance(reply, dict) and "error" in reply and reply.get("id") in (None, request_id):
            return dict(reply["error"])
    return None


def has_envelope(case: Case, line: Any) -> bool:
    """Whether params are an object, and in the stateless era `_meta` is what it must be (META-01, META-08,
    META-09).
    """
    params = of(line, "params")
    if case.era == "handshake":
        return params is None or isinstance(params, dict)
    token = of(params, "_meta", "progressToken")
    try:
        stateless.RequestMetaObject.model_validate(of(params, "_meta"))
    except pydantic.ValidationError:
        return False
    return token is None or type(token) in (int, str)


@OVER_HTTP
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_status_follows_from_code_and_era(case: Case) -> None:
    """REQUIREMENTS section 3: HTTP says what a proxy or an old client can understand."""
    assert replay.answer("http", case).statuses == list(expected(case))
