"""What a question becomes in each revision, and which clients can be asked it."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import msgspec
import pytest
from asking.asking_kit import ASKABLE, HANDSHAKE, REVISIONS, STATELESS

from mcpkit import (
    ElicitForm,
    ElicitUrl,
    EmbeddedResource,
    Image,
    ListRoots,
    Message,
    Param,
    Sample,
    assistant,
)
from mcpkit.protocol.questions import CannotAsk, Question, fit, needs, refusal

FIRST, SECOND, THIRD, LAST = HANDSHAKE


class Size(enum.Enum):
    small = "s"
    large = "l"


Titled = Annotated[Size, Param(extra={"enumNames": ["Small", "Large"]})]


class Order(msgspec.Struct):
    name: Annotated[str, Param("Who orders", title="Name", min_length=2, max_length=9)]
    mail: Annotated[str, Param(extra={"format": "email"})] = "a@b.example"
    count: Annotated[int, Param(ge=1, le=9)] = 3
    weight: Annotated[float, Param(ge=0.5)] = 1.5
    express: bool = True
    size: Size = Size.small
    titled: Titled = Size.large


class Several(msgspec.Struct):
    sizes: list[Size]


def properties(kind: Any, revision: str) -> Any:
    return fit(ElicitForm(kind, "m").question, revision)["requestedSchema"]["properties"]


TITLES = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]


def test_the_last_handshake_revision_and_the_stateless_era_take_everything() -> None:
    """ELI-03, ELI-04: defaults survive, untitled choices are an enum, titled ones oneOf, never mixed."""
    for revision in (LAST, STATELESS):
        assert properties(Order, revision) == {
            "name": {
                "type": "string",
                "title": "Name",
                "description": "Who orders",
                "minLength": 2,
                "maxLength": 9,
            },
            "mail": {"type": "string", "format": "email", "default": "a@b.example"},
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "weight": {"type": "number", "minimum": 0.5, "default": 1.5},
            "express": {"type": "boolean", "default": True},
            "size": {"type": "string", "enum": ["s", "l"], "default": "s"},
            "titled": {"type": "string", "oneOf": TITLES, "default": "l"},
        }
        assert fit(ElicitForm(Order, "m").question, revision)["mode"] == "form"


def test_the_first_revision_with_forms_gets_what_it_knows() -> None:
    """ELI-02, S2C-07: no mode, no defaults but of booleans, enumNames for titles."""
    assert properties(Order, THIRD) == {
        "name": {
            "type": "string",
            "title": "Name",
            "description": "Who orders",
            "minLength": 2,
            "maxLength": 9,
        },
        "mail": {"type": "string", "format": "email"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "weight": {"type": "number", "minimum": 0.5},
        "express": {"type": "boolean", "default": True},
        "size": {"type": "string", "enum": ["s", "l"]},
        "titled": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
    }
    assert set(fit(ElicitForm(Order, "m").question, THIRD)) == {"message", "requestedSchema"}


def test_a_schema_keeps_its_dialect_where_there_is_a_place_for_it() -> None:
    """Section 26: `$schema` came with 2025-11-25."""
    given = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {}}
    question = ElicitForm(given, "m").question
    assert "$schema" in fit(question, LAST)["requestedSchema"]
    assert fit(question, THIRD)["requestedSchema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("revision", REVISIONS)
def test_choices_of_several_need_the_newer_forms(revision: str) -> None:
    """ELI-02: a multi-select is what 2025-06-18 cannot show, so it is not asked there."""
    reason = refusal(ElicitForm(Several, "m").question, revision, {"elicitation": {"form": {}}})
    assert (reason is None) == (revision in ASKABLE[1:])
    if revision == THIRD:
        assert reason == f"a form has no lists in revision {THIRD} (field 'sizes')"


def test_a_visit_is_named_in_one_revision_only() -> None:
    """S2C-08, MRTR-03: `elicitationId` is required in 2025-11-25, and gone in 2026-07-28."""
    visit = ElicitUrl("https://example.com/x", "Go there")
    shared = {"mode": "url", "message": "Go there", "url": "https://example.com/x"}
    assert fit(visit.question, LAST) == {**shared, "elicitationId": visit.id}
    assert fit(visit.question, STATELESS) == shared
    assert visit.id != ElicitUrl("https://example.com/x", "Go there").id
    for revision in HANDSHAKE[:3]:
        with pytest.raises(CannotAsk):
            fit(visit.question, revision)


@pytest.mark.parametrize(
    "url", ["example.com", "/x", "javascript:alert(1)", "ftp://x", "https://", "https:///x", ""]
)
def test_people_are_sent_to_web_pages_only(url: str) -> None:
    """S2C-08: a valid URL; a client opens what it is given."""
    with pytest.raises(ValueError, match="http or https URL"):
        ElicitUrl(url, "Go there")


def test_completions_are_narrowed() -> None:
    """S2C-05, S2C-03: one block a message, no tools, before 2025-11-25; sound came with 2025-03-26."""
    plain = Sample(["hi", assistant("ho")], max_tokens=7)
    expected = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "assistant", "content": {"type": "text", "text": "ho"}},
        ],
        "maxTokens": 7,
    }
    for revision in REVISIONS:
        assert fit(plain.question, revision) == expected
    blocks = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    sound = {"role": "user", "content": {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}}
    for message, revisions in ((blocks, HANDSHAKE[:3]), (sound, HANDSHAKE[:1])):
        for revision in REVISIONS:
            question = Sample([message]).question
            if revision in revisions:
                with pytest.raises(CannotAsk):
                    fit(question, revision)
            else:
                assert fit(question, revision)["messages"] == [message]
    tools = Sample("hi", tools=[{"name": "x", "inputSchema": {"type": "object"}}]).question
    for revision in HANDSHAKE[:3]:
        with pytest.raises(CannotAsk):
            fit(tools, revision)
    assert fit(tools, LAST) == tools.params


def test_uses_of_tools_are_answered_in_the_next_message() -> None:
    """S2C-04: by results with matching ids, in a message that holds nothing else; none before 2025-11-25."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}]}
    result = {"role": "user", "content": {"type": "tool_result", "toolUseId": "1", "content": []}}
    other = {"role": "user", "content": {"type": "tool_result", "toolUseId": "2", "content": []}}
    mixed = {"role": "user", "content": [result["content"], {"type": "text", "text": "a"}]}
    question = Sample([use, result]).question
    assert fit(question, LAST)["messages"] == [use, result]
    with pytest.raises(CannotAsk):
        fit(question, THIRD)
    for wrong in ([use], [result], [use, other], [use, mixed], [use, "text"], [use, "text", result]):
        with pytest.raises(ValueError, match="answered by a tool_result"):
            Sample(wrong)


def test_fields_of_blocks_are_narrowed_in_completions() -> None:
    """Section 1.4: `_meta` on blocks came with 2025-06-18."""
    message = {"role": "user", "content": {"type": "text", "text": "a", "_meta": {"x": 1}}}
    assert fit(Sample(message).question, SECOND)["messages"][0]["content"] == {"type": "text", "text": "a"}
    assert fit(Sample(message).question, THIRD)["messages"] == [message]


def test_completions_hold_text_images_and_sound() -> None:
    """Schema, SamplingMessage: no resources."""
    image = Message("user", Image(b"\x89PNG", "image/png"))
    assert Sample(image).question.params["messages"][0]["content"] == {
        "type": "image",
        "data": "iVBORw==",
        "mimeType": "image/png",
    }
    with pytest.raises(TypeError, match="not with EmbeddedResource"):
        Sample(Message("user", EmbeddedResource("x://y", text="t")))


def test_options_of_completions_are_sent_in_the_spelling_of_the_specification() -> None:
    """Schema, CreateMessageRequestParams."""
    question = Sample(
        "hi", system_prompt="Be brief", temperature=0.0, stop_sequences=["."], modelPreferences={"hints": []}
    ).question
    assert question.params == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "maxTokens": 1000,
        "systemPrompt": "Be brief",
        "temperature": 0.0,
        "stopSequences": ["."],
        "modelPreferences": {"hints": []},
    }


FORM = ElicitForm(Order, "m").question
VISIT = ElicitUrl("https://example.com", "m").question
TOOLS = Sample("hi", tools=[]).question
CHOICE = Sample("hi", toolChoice={"mode": "auto"}).question
CONTEXT = Sample("hi", includeContext="thisServer").question
NO_CONTEXT = Sample("hi", includeContext="none").question


@pytest.mark.parametrize(
    ("question", "tree"),
    [
        (FORM, {"elicitation": {}}),
        (VISIT, {"elicitation": {"url": {}}}),
        (Sample("hi").question, {"sampling": {}}),
        (TOOLS, {"sampling": {"tools": {}}}),
        (CHOICE, {"sampling": {"tools": {}}}),
        (CONTEXT, {"sampling": {"context": {}}}),
        (NO_CONTEXT, {"sampling": {}}),
        (ListRoots().question, {"roots": {}}),
    ],
)
def test_capabilities_are_a_tree_whose_leaves_are_objects(question: Question, tree: Any) -> None:
    """ERR-04, S2C-03."""
    assert needs(question) == tree
    assert refusal(question, STATELESS, tree) is None
    assert refusal(question, STATELESS, {}) == f"the client does not declare {next(iter(tree))}"


@pytest.mark.parametrize(
    ("question", "capabilities", "revision", "reason"),
    [
        (FORM, {"elicitation": {"form": {}}}, LAST, None),
        (FORM, {"elicitation": {"url": {}}}, LAST, "the client does not declare elicitation.form"),
        (FORM, {"elicitation": {"url": {}}}, THIRD, None),
        (FORM, {"elicitation": True}, LAST, "the client does not declare elicitation"),
        (VISIT, {"elicitation": {}}, LAST, "the client does not declare elicitation.url"),
        (VISIT, {"elicitation": {"form": {}}}, STATELESS, "the client does not declare elicitation.url"),
        (TOOLS, {"sampling": {}}, LAST, "the client does not declare sampling.tools"),
        (CONTEXT, {"sampling": {}}, LAST, "the client does not declare sampling.context"),
        (CONTEXT, {"sampling": {}}, THIRD, None),
        (FORM, {"elicitation": {}}, SECOND, f"revision {SECOND} has no elicitation"),
    ],
)
def test_details_of_capabilities_count_from_the_revision_that_has_them(
    question: Question, capabilities: Any, revision: str, reason: str | None
) -> None:
    """S2C-03, S2C-07; section 1.3: `elicitation` and `sampling` had no members before 2025-11-25."""
    assert refusal(question, revision, capabilities) == reason
