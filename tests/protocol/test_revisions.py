"""The table of revisions, held against the official definitions of each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import mcp_types.methods as official_methods
import msgspec
import official
import pytest

from mcpkit.protocol import eras, revisions, types
from mcpkit.protocol.events import Envelope, Identity
from mcpkit.protocol.methods import METHODS

every_revision = pytest.mark.parametrize("revision", revisions.REVISIONS)

ICON = types.Icon("https://x.example/i.png", "image/png", ["48x48"], "dark")
NOTES = types.Annotations(("user",), 0.5, "2025-01-12T15:00:58Z")
META = {"example.com/key": 1}
TEXT = types.TextContent("t", NOTES, META)
CONTENTS = types.ResourceContents("x://y", "text/plain", "t", None, META)
BLOB = types.ResourceContents("x://y", "image/png", None, b"b", META)
LINK = types.ResourceLinkContent("x://y", "n", "t", "d", "m/t", 5, NOTES, [ICON], META)
WHO = types.Implementation("n", "1", "t", "d", "https://x.example", [ICON])
TOOL = types.Tool(
    "n",
    {"type": "object"},
    "t",
    "d",
    [ICON],
    {"type": "object"},
    types.ToolAnnotations("t", True, False, True, False),
    META,
)
RESOURCE = types.Resource("x://y", "n", "t", "d", "m/t", 5, NOTES, [ICON], META)
TEMPLATE = types.ResourceTemplate("x://{y}", "n", "t", "d", "m/t", NOTES, [ICON], META)
ARGUMENT = types.PromptArgument("n", "t", "d", True)
PROMPT = types.Prompt("n", "t", "d", [ARGUMENT], [ICON], META)
BLOCKS: list[types.ContentBlock] = [
    TEXT,
    types.ImageContent(b"i", "image/png", NOTES, META),
    types.AudioContent(b"a", "audio/wav", NOTES, META),
    LINK,
    types.EmbeddedResourceContent(CONTENTS, NOTES, META),
    types.EmbeddedResourceContent(BLOB, NOTES, META),
]
SHARED: dict[str, Any] = {"meta": META}
LISTED: dict[str, Any] = {"next_cursor": "c", **SHARED}

# Everything that a server sends, with every field filled, and the official name of it.
FULL: list[tuple[Any, str]] = [
    (WHO, "Implementation"),
    (NOTES, "Annotations"),
    (TOOL, "Tool"),
    (TOOL.annotations, "ToolAnnotations"),
    (RESOURCE, "Resource"),
    (TEMPLATE, "ResourceTemplate"),
    (PROMPT, "Prompt"),
    (ARGUMENT, "PromptArgument"),
    (TEXT, "TextContent"),
    (BLOCKS[1], "ImageContent"),
    (BLOCKS[2], "AudioContent"),
    (LINK, "ResourceLink"),
    (BLOCKS[4], "EmbeddedResource"),
    (CONTENTS, "TextResourceContents"),
    (BLOB, "BlobResourceContents"),
    (types.PromptMessage("user", TEXT), "PromptMessage"),
    (ICON, "Icon"),
    (types.Completion(["a"], 1, False), "Completion"),
    (types.ProgressParams(1, 0.5, 1.0, "m"), "ProgressNotificationParams"),
    (types.LogParams("info", "d", "l"), "LoggingMessageNotificationParams"),
]
RESULTS: list[tuple[types.Result, str]] = [
    (types.Result(**SHARED), "EmptyResult"),
    (
        types.InitializeResult(
            protocol_version="v", capabilities={}, server_info=WHO, instructions="i", **SHARED
        ),
        "InitializeResult",
    ),
    (
        types.DiscoverResult(supported_versions=["v"], capabilities={}, instructions="i", **SHARED),
        "DiscoverResult",
    ),
    (types.ListToolsResult(tools=[TOOL], **LISTED), "ListToolsResult"),
    (types.ListResourcesResult(resources=[RESOURCE], **LISTED), "ListResourcesResult"),
    (
        types.ListResourceTemplatesResult(resource_templates=[TEMPLATE], **LISTED),
        "ListResourceTemplatesResult",
    ),
    (types.ListPromptsResult(prompts=[PROMPT], **LISTED), "ListPromptsResult"),
    (
        types.CallToolResult(content=BLOCKS, structured_content=msgspec.Raw(b"{}"), is_error=True, **SHARED),
        "CallToolResult",
    ),
    (types.ReadResourceResult(contents=[CONTENTS, BLOB], **SHARED), "ReadResourceResult"),
    (
        types.GetPromptResult(
            messages=[types.PromptMessage("user", block) for block in BLOCKS], description="d", **SHARED
        ),
        "GetPromptResult",
    ),
    (types.CompleteResult(completion=types.Completion(["a"], 1, False), **SHARED), "CompleteResult"),
]
NAMES = {type(value): name for value, name in [*FULL, *RESULTS]}
IDENTITY = Identity(WHO, {"ttl_ms": 5, "cache_scope": "public"})


def sealed(result: types.Result, revision: str) -> Any:
    """The result as a client of the revision receives it."""
    fresh = msgspec.structs.replace(result)  # it is filled in
    return eras.seal(fresh, Envelope(revision, None, {}, None), IDENTITY, wrap=False)


def members(value: Any) -> set[str]:
    """The names of what is sent of a value."""
    return set(msgspec.json.decode(msgspec.json.encode(value)))


def official_name(value: Any) -> str:
    """The official name of what a value is sent as."""
    if isinstance(value, types.ResourceContents):
        return "TextResourceContents" if value.blob is None else "BlobResourceContents"
    return NAMES[type(value)]


def parts(value: Any) -> Iterator[Any]:
    """All objects of `types` that a value consists of."""
    if isinstance(value, msgspec.Struct):
        yield value
        for field in value.__struct_fields__:
            yield from parts(getattr(value, field))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from parts(item)


# -- The table -------------------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize(("value", "name"), FULL, ids=[name for _, name in FULL])
def test_an_object_has_exactly_the_members_that_its_revision_knows(
    revision: str, value: Any, name: str
) -> None:
    """INIT-04, INIT-10, section 1.4: none that the official definition lacks, and all that both have."""
    known = official.definitions(revision).get(name)
    if known is not None:
        assert members(revisions.narrow(value, revision)) == members(value) & known


@every_revision
@pytest.mark.parametrize(("result", "name"), RESULTS, ids=[name for _, name in RESULTS])
def test_a_result_has_exactly_the_members_that_its_revision_knows(
    revision: str, result: types.Result, name: str
) -> None:
    """RPC-11, RPC-12, CACH-01, PRM-05, CMP-05: `resultType` and cache fields where they are defined, nowhere else."""
    known = official.definitions(revision).get(name)
    if known is not None:
        era_fields = {"resultType", "ttlMs", "cacheScope"} & known
        assert members(sealed(result, revision)) == members(result) & known | era_fields


@every_revision
@pytest.mark.parametrize(("result", "name"), RESULTS, ids=[name for _, name in RESULTS])
def test_nothing_inside_a_result_is_unknown_to_its_revision(
    revision: str, result: types.Result, name: str
) -> None:
    """INIT-10: whole objects, too: icons, audio, links and annotations come at any depth."""
    definitions = official.definitions(revision)
    if name in definitions:
        for part in parts(sealed(result, revision)):
            assert members(part) <= definitions[official_name(part)], part


def test_everything_that_a_server_sends_is_in_these_tests() -> None:
    """STYLE habit 2: a new type of `types` is a new row here."""
    asked = {types.Params, types.RequestMeta, types.Result, types.CacheableResult, types.Wire}
    sendable = {
        kind
        for _, kind in inspect.getmembers(types, inspect.isclass)
        if issubclass(kind, types.Wire) and not issubclass(kind, types.Params) and kind not in asked
    }
    received = {
        types.PromptReference,
        types.ResourceReference,
        types.CompletionArgument,
        types.CompletionContext,
    }
    assert sendable - received - set(NAMES) <= OF_ONE_ERA


OF_ONE_ERA = {
    kind
    for name in [
        "SubscriptionFilter",
        "CancelledNotice",
        "ChangeParams",
        "AcknowledgedParams",
        "InputRequiredResult",
    ]
    if (kind := getattr(types, name, None)) is not None
}
"""Of the stateless era alone, or the same in all revisions: nothing in them is narrowed."""


@pytest.mark.parametrize("value", [value for value, _ in FULL], ids=[name for _, name in FULL])
def test_every_field_of_the_full_objects_is_filled(value: Any) -> None:
    """Otherwise the tests above would not see it."""
    alternatives = {"text", "blob"} if isinstance(value, types.ResourceContents) else set()
    for field in value.__struct_fields__:
        assert field in alternatives or getattr(value, field) is not None


@every_revision
def test_the_revisions_of_methods_are_the_official_ones(revision: str) -> None:
    """Section 1.1: what a revision lacks does not exist in it."""
    theirs = {method for method, since in official_methods.CLIENT_REQUESTS if since == revision}
    ours = {name for name, row in METHODS.items() if row.exists_in(revision)}
    not_offered = {"resources/subscribe", "resources/unsubscribe", "subscriptions/listen"}
    assert ours - theirs == set()
    assert {method for method in theirs - ours if not method.startswith("tasks/")} <= not_offered


# -- Narrowing -------------------------------------------------------------------------------------------------


@every_revision
def test_narrowing_leaves_the_original_as_it_is(revision: str) -> None:
    """A definition is registered once and sent in many revisions."""
    for value, _ in [*FULL, *RESULTS]:
        before = msgspec.json.encode(value)
        revisions.narrow(value, revision)
        assert msgspec.json.encode(value) == before


@pytest.mark.parametrize(("revision", "kind"), [("2024-11-05", "resource"), ("2025-03-26", "audio")])
def test_audio_becomes_an_embedded_resource_where_there_is_none(revision: str, kind: str) -> None:
    """INIT-10 (DEC): nothing of it is lost."""
    (block,) = sealed(
        types.CallToolResult(content=[types.AudioContent(b"a", "audio/wav", NOTES)]), revision
    ).content
    wire = msgspec.json.decode(msgspec.json.encode(block))
    assert wire["type"] == kind
    assert (wire.get("resource") or wire)["mimeType"] == "audio/wav"
    assert (wire["resource"]["blob"] if kind == "resource" else wire["data"]) == "YQ=="
    assert wire["annotations"] == {"audience": ["user"], "priority": 0.5}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_a_link_becomes_text_with_its_uri_where_there_is_none(revision: str) -> None:
    """INIT-10 (DEC)."""
    (block,) = sealed(types.CallToolResult(content=[LINK]), revision).content
    assert msgspec.to_builtins(block)["text"] == "x://y"


@pytest.mark.parametrize("value", [b"5", b"[1]", b"null", b'"x"', b"true"])
@every_revision
def test_structure_that_is_no_object_is_wrapped_where_it_must_be_one(revision: str, value: bytes) -> None:
    """INIT-10 (DEC), DESIGN 4.2: `{"result": …}` in 2025-06-18 and 2025-11-25, the value later, nothing before."""
    result = types.CallToolResult(content=[], structured_content=msgspec.Raw(value))
    envelope = Envelope(revision, None, {}, None)
    got = msgspec.to_builtins(
        eras.seal(result, envelope, IDENTITY, wrap=True), enc_hook=msgspec.json.decode
    ).get("structuredContent", ...)
    plain = msgspec.json.decode(value)
    expected = {"2025-06-18": {"result": plain}, "2025-11-25": {"result": plain}, "2026-07-28": plain}
    assert got == expected.get(revision, ...)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_an_object_is_wrapped_only_where_its_schema_is(revision: str) -> None:
    """DESIGN 4.2: a union of objects has no object at the root of its schema."""
    result = types.CallToolResult(content=[], structured_content=msgspec.Raw(b'{"a":1}'))
    envelope = Envelope(revision, None, {}, None)
    for wrap, expected in ((False, {"a": 1}), (True, {"result": {"a": 1}})):
        structured = eras.seal(result, envelope, IDENTITY, wrap=wrap).structured_content  # type: ignore[attr-defined]
        assert msgspec.json.decode(structured) == expected


@pytest.mark.parametrize(
    "schema", [{"type": "integer"}, {"anyOf": [{"type": "object"}, {"type": "null"}]}, {}]
)
@every_revision
def test_an_output_schema_is_wrapped_where_its_values_are(revision: str, schema: dict[str, Any]) -> None:
    """CLIENTS, "What breaks them": one bad output schema empties the whole list."""
    listed = types.ListToolsResult(tools=[types.Tool("n", {"type": "object"}, output_schema=schema)])
    got = sealed(listed, revision).tools[0].output_schema
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    expected = {"2025-06-18": wrapped, "2025-11-25": wrapped, "2026-07-28": schema}
    assert got == expected.get(revision)


def test_definitions_of_a_wrapped_schema_stay_at_its_root() -> None:
    """JSON Schema 2020-12: `#/$defs/…` is looked up there."""
    schema = {"$ref": "#/$defs/N", "$defs": {"N": {"type": "array"}}, "$schema": "s"}
    wrapped = revisions.wrapped_schema(schema)
    assert wrapped["$defs"] == {"N": {"type": "array"}}
    assert wrapped["$schema"] == "s"
    assert wrapped["properties"] == {"result": {"$ref": "#/$defs/N"}}
