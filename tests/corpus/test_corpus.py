"""The golden corpus: it is sound, and the reference server answers it, over memory, stdio, HTTP+SSE and HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import mcp_types as official
import mcp_types.jsonrpc as official_jsonrpc
import mcp_types.methods as official_methods
import pairs
import pydantic
import pytest
import replay
from pairs import FIXTURES, Case, Conversation
from support import OVER_HTTP

CASES = list(pairs.cases().values())
README = (FIXTURES / "README.md").read_text(encoding="utf-8")
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
# By revision: what a client may call.
OFFERED = {
    revision: {method for method, since in official_methods.CLIENT_REQUESTS if since == revision}
    for revision in (*HANDSHAKE, STATELESS)
}
# By revision: what a server may send unasked, as far as this one does.
TOLD = {
    revision: {method for method, since in official_methods.SERVER_NOTIFICATIONS if since == revision}
    - {"notifications/elicitation/complete"}
    - ({"notifications/cancelled"} if revision != STATELESS else set())
    for revision in (*HANDSHAKE, STATELESS)
}
PLAYED = [
    pytest.param(way, case, id=f"{case.name}-{way}", marks=OVER_HTTP if way in ("http", "sse") else ())
    for case in CASES
    for way, (transport, _) in replay.WAYS.items()
    if transport in case.transports
]


def succeeds(case: Case) -> bool:
    """Whether every request of the case gets a result."""
    return not any("error" in message for message in pairs.received(case))


def method_of(case: Case, request_id: object) -> str:
    """The method of the request with this id."""
    methods: list[str] = [
        message["method"] for message in pairs.sent(case) if message.get("id") == request_id
    ]
    return methods[-1]


# -- The corpus in itself ------------------------------------------------------------------------------------


def test_every_pair_is_in_the_manifest_and_the_other_way_round() -> None:
    """fixtures/README.md, "Files": no file without a case, no case without its two files."""
    files = {str(path.relative_to(FIXTURES)) for path in FIXTURES.glob("*/*")}
    assert files == {f"{case.name}.{part}.json" for case in CASES for part in ("request", "response")}


def test_names_begin_with_the_era_and_end_with_what_they_ask() -> None:
    """fixtures/README.md, "manifest.json": the folder is the era."""
    assert len(CASES) >= 80
    for case in CASES:
        assert re.fullmatch(rf"{case.era}/[a-z0-9-]+", case.name)
        assert case.revision in ((None, *HANDSHAKE) if case.era == "handshake" else (STATELESS,))


def test_the_readme_defines_every_variant_and_every_name_that_is_listed() -> None:
    """fixtures/README.md, "The reference server": everything that appears in a list is described."""
    for server in pairs.manifest()["servers"]:
        assert f"`{server}`" in README
    for kind in ("tools", "resources", "resources-templates", "prompts"):
        (entries,) = (
            value
            for value in pairs.read(f"stateless/{kind}-list.response.json")["result"].values()
            if isinstance(value, list)
        )
        for entry in entries:
            assert f"| `{entry.get('uri') or entry.get('uriTemplate') or entry['name']}` |" in README


def test_the_readme_explains_the_names_of_rules() -> None:
    """fixtures/README.md, "Names of rules": each case says what it stands for, in letters explained there."""
    table = README[README.index("## Names of rules") :]
    for case in CASES:
        assert case.requires
        assert case.shows
        for rule in case.requires:
            letters = re.fullmatch(r"([A-Z]+)-\d\d", rule)
            assert letters is not None
            assert re.search(rf"\b{letters[1]}\b", table)


def test_what_comes_before_a_case_is_complete_and_in_order() -> None:
    """fixtures/README.md, "Playing a case": `before` names earlier cases of the same server, each with its own."""
    known = [case.name for case in CASES]
    for case in CASES:
        for place, name in enumerate(case.before):
            earlier = pairs.cases()[name]
            assert earlier.server == case.server
            assert {*earlier.transports} >= {*case.transports}
            assert not earlier.ends
            assert known.index(name) < known.index(case.name)
            assert earlier.before == case.before[: len(earlier.before)]
            assert len(earlier.before) <= place


def test_a_case_names_the_transports_that_can_carry_it() -> None:
    """fixtures/README.md, "manifest.json": named only where one is left out; an end comes last, alone."""
    for case in CASES:
        assert case.transports in (("stdio", "http"), ("stdio",), ("http",))
        ends = [isinstance(step, pairs.End) for step in case.steps(dict.fromkeys(captured_names(), "x"))]
        assert not any(ends[:-1])
        assert not case.ends or case.fresh
    assert all("transports" not in row or len(row["transports"]) == 1 for row in pairs.manifest()["cases"])


def captured_names() -> set[str]:
    """What any case remembers."""
    return {name for case in CASES for name in case.capture}


@pytest.mark.parametrize("plan", pairs.conversations(), ids=lambda plan: f"{plan.server}-{plan.names[-1]}")
def test_no_id_is_used_twice_on_one_connection(plan: Conversation) -> None:
    """RPC-09: the requestor never reuses an id, except to show what happens to one that is in flight."""
    used: set[tuple[type, object]] = set()
    for case in (pairs.cases()[name] for name in plan.names):
        ids = {
            (type(message["id"]), str(message["id"]))
            for message in pairs.sent(case)
            if "method" in message and "id" in message
        }
        ids = {(kind, text) for kind, text in ids if kind in (int, str)}
        assert not ids & used
        used |= ids


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_every_case_is_played_on_some_connection(transport: str) -> None:
    """fixtures/README.md, "Playing a case": sharing connections leaves none out."""
    plans = pairs.conversations(transport)
    assert {name for plan in plans for name in plan.names} == {
        case.name for case in CASES if transport in case.transports
    }


@pytest.mark.parametrize("revision", [*HANDSHAKE, STATELESS])
def test_every_method_has_a_case_in_every_revision(revision: str) -> None:
    """What mcp-types lists for the revision is asked and answered with a result."""
    answered = {
        method_of(case, message["id"])
        for case in CASES
        if case.revision == revision
        for message in pairs.received(case)
        if "result" in message
    }
    assert answered == OFFERED[revision]


@pytest.mark.parametrize("revision", [*HANDSHAKE, STATELESS])
def test_every_notification_has_a_case_in_every_revision(revision: str) -> None:
    """What mcp-types lists for the revision is sent, untagged or tagged."""
    sent = {
        message["method"]
        for case in CASES
        if case.revision == revision
        for message in pairs.received(case)
        if "method" in message
    }
    assert sent == TOLD[revision]


def test_every_error_code_has_a_case_in_every_era_that_has_it() -> None:
    """The codes of JSON-RPC 2.0 section 5.1 and of the specification that stdio can carry."""
    common = {-32700, -32600, -32601, -32602, -32603, 4001}
    for era, own in (("handshake", {-32002}), ("stateless", {-32022})):
        codes = {
            message["error"]["code"]
            for case in CASES
            if case.era == era
            for message in pairs.received(case)
            if "error" in message
        }
        assert codes == common | own


def test_answers_fit_the_official_types_of_their_revision() -> None:
    """mcp-types, which stands for schema.ts: what we expect is what the revision defines."""
    assert [problem for case in CASES for problem in answer_problems(case)] == []


def answer_problems(case: Case) -> Iterator[str]:
    """What mcp-types does not accept in a response."""
    revision = case.revision or HANDSHAKE[-1]
    for message in map(expanded, pairs.received(case)):
        try:
            if "error" in message:
                official_jsonrpc.JSONRPCError.model_validate({"id": None} | message)
            elif "method" in message:
                official_methods.parse_server_notification(message["method"], revision, message.get("params"))
            else:
                official_jsonrpc.JSONRPCResponse.model_validate(message)
                method = method_of(case, message["id"])
                result = official_methods.parse_server_result(method, revision, message["result"])
                if isinstance(result, official.InputRequiredResult):  # has no member that it needs
                    yield f"{case.name}: fits only as input_required"
        except (KeyError, pydantic.ValidationError) as error:
            yield f"{case.name}: {error}"


def test_requests_that_get_a_result_fit_the_official_types_unless_they_are_lenient() -> None:
    """fixtures/README.md, "manifest.json": only `lenient` requests break their schema and get a result."""
    strict = (case for case in CASES if succeeds(case) and not case.lenient)
    assert [problem for case in strict for problem in request_problems(case)] == []


def request_problems(case: Case) -> Iterator[str]:
    """What mcp-types does not accept in a request."""
    revision = case.revision or HANDSHAKE[-1]
    for message in pairs.sent(case):
        if "id" not in message or "method" not in message:
            continue
        try:
            official_methods.validate_client_request(message["method"], revision, message.get("params"))
        except (KeyError, pydantic.ValidationError) as error:
            yield f"{case.name}: {error}"


def expanded(value: Any) -> Any:
    """`value` with arrays that are written in part filled up with their first written element."""
    if isinstance(value, list):
        return [expanded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"<array>"}:
        written = value["<array>"]["at"]
        return [written.get(str(index), written["0"]) for index in range(value["<array>"]["length"])]
    return {key: expanded(item) for key, item in value.items()}


# -- Comparing -----------------------------------------------------------------------------------------------

PART = {"<array>": {"length": 2, "at": {"1": {"a": "<any-string>"}}}}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1, "b": [True, None]}, {"b": [True, None], "a": 1}),
        ("<any-string>", "x"),
        ("<any-string containing b>", "abc"),
        (PART, [0, {"a": "x"}]),
        ([{"id": 1}, {"id": 2}], [{"id": 2}, {"id": 1}]),
    ],
)
def test_equal_lines_are_equal(expected: Any, actual: Any) -> None:
    """fixtures/README.md, "Comparing"."""
    assert pairs.line_differences(expected, actual) == []


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1, "b": None}, {"a": 1}),
        ({"a": {}}, {"a": []}),
        (1, True),
        (1, 1.0),
        (1, "1"),
        (None, False),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ([1, 2], [1]),
        ("<any-string>", ""),
        ("<any-string>", 1),
        ("<any-string containing b>", "ac"),
        (PART, [0]),
        (PART, [0, {"a": 1}]),
        (PART, {}),
    ],
)
def test_different_lines_are_different(expected: Any, actual: Any) -> None:
    """fixtures/README.md, "Comparing"."""
    assert pairs.line_differences(expected, actual) != []


@pytest.mark.parametrize("lines", [[1, 2, 3], [1, 3, 2], [3, 1, 2]])
def test_lines_of_several_streams_come_in_any_order_between_them(lines: list[Any]) -> None:
    """fixtures/README.md, "A response file holds one of"."""
    assert pairs.differences_of([[1, 2], [3]], lines) == []


@pytest.mark.parametrize("lines", [[2, 1, 3], [3, 2, 1], [1, 2], [1, 2, 3, 3]])
def test_lines_of_one_stream_come_in_its_order(lines: list[Any]) -> None:
    """fixtures/README.md, "A response file holds one of"."""
    assert pairs.differences_of([[1, 2], [3]], lines) != []


def test_only_ids_that_cannot_be_read_are_left_out_over_http() -> None:
    """RPC-06; fixtures/README.md, "Over HTTP"."""
    unread = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600}}
    read = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32600, "data": None}}
    assert pairs.without_null_ids([[unread, [unread, read]]]) == [
        [
            {"jsonrpc": "2.0", "error": {"code": -32600}},
            [{"jsonrpc": "2.0", "error": {"code": -32600}}, read],
        ]
    ]


# -- The reference server ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "case"), PLAYED)
def test_the_reference_server_answers(way: str, case: Case) -> None:
    """fixtures/README.md: exactly these lines come back, and no others."""
    lines = replay.answer(way, case).lines
    expected = pairs.without_null_ids(case.streams) if way in ("http", "sse") else case.streams
    assert pairs.differences_of(expected, lines) == []
