"""What a server can ask a client for: a form, a visit to a URL, a completion by its model, its roots.

A question is a method with params in the superset of all revisions. `fit` makes of it what one revision can
receive, or says that it cannot; `needs` says which client capabilities it takes; `refusal` puts both together.

Source: MCP 2025-06-18 to 2026-07-28, "Elicitation", "Sampling", "Roots".
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from mcpkit.protocol import revisions, types
from mcpkit.protocol.types import Wire

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
ROOTS = "roots/list"


class Question(Struct):
    """A method and its params, JSON-encodable."""

    method: str
    params: dict[str, Any]


# -- What a client answers ---------------------------------------------------------------


class ElicitResult(Wire):
    """What became of a form or a URL. `content` maps names to strings, numbers, booleans or lists of strings."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class SamplingResult(Wire, kw_only=True):
    """What the client's model said; `content` is one block or several."""

    role: types.Role
    content: dict[str, Any] | list[dict[str, Any]]
    model: str
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        _ = self.blocks  # a block that is none makes the result none

    @property
    def blocks(self) -> list[Any]:
        """The blocks; text, images and sound typed, a tool use or what comes later as it is."""
        return [_block(item) for item in (self.content if isinstance(self.content, list) else [self.content])]


_BLOCKS: dict[str, type[Struct]] = {
    "text": types.TextContent,
    "image": types.ImageContent,
    "audio": types.AudioContent,
}


def _block(block: dict[str, Any]) -> Any:
    kind = block.get("type")
    if not isinstance(kind, str):
        raise ValueError("a block of content needs a type")
    return msgspec.convert(block, _BLOCKS[kind]) if kind in _BLOCKS else block


class Root(Wire):
    """A folder or file that the client works in."""

    uri: str
    name: str | None = None


class RootsResult(Wire):
    """The client's roots."""

    roots: list[Root]


RESULTS: dict[str, type[Struct]] = {ELICIT: ElicitResult, SAMPLE: SamplingResult, ROOTS: RootsResult}


# -- Whether a client can be asked -------------------------------------------------------


class CannotAsk(Exception):
    """The revision does not have the question; the message says why."""


def refusal(question: Question, revision: str, capabilities: dict[str, Any]) -> str | None:
    """Why a client of this revision, with these capabilities, cannot be asked; None when it can."""
    try:
        fit(question, revision)
    except CannotAsk as error:
        return str(error)
    for name, details in needs(question).items():
        declared = capabilities.get(name)
        if not isinstance(declared, dict):
            return f"the client does not declare {name}"
        missing = [] if revision < revisions.V2025_11_25 else _missing(name, details, declared)
        if missing:
            return f"the client does not declare {name}.{missing[0]}"
    return None


def violation(question: Question, revision: str, capabilities: dict[str, Any]) -> str | None:
    """Why a server must not have asked this, as it came; None when it may."""
    reason = refusal(question, revision, capabilities)
    if reason is None and fit(question, revision) != question.params:
        reason = f"the question has what {revision} does not know"
    return reason


def needs(question: Question) -> dict[str, Any]:
    """The capabilities that a client must declare to be asked: a tree whose leaves are objects (ERR-04)."""
    params = question.params
    if question.method == ELICIT:
        return {"elicitation": {"url": {}} if params.get("mode") == "url" else {}}
    if question.method == SAMPLE:
        tools = "tools" in params or "toolChoice" in params
        context = params.get("includeContext", "none") != "none"
        return {"sampling": {**({"tools": {}} if tools else {}), **({"context": {}} if context else {})}}
    return {"roots": {}}


def _missing(name: str, details: dict[str, Any], declared: dict[str, Any]) -> list[str]:
    """What of a capability is not declared. An empty `elicitation` means forms (S2C-07)."""
    if name == "elicitation" and not details and declared and "form" not in declared:
        return ["form"]
    return [detail for detail in details if detail not in declared]


def check_turns(messages: list[dict[str, Any]]) -> None:
    """Raise ValueError unless each use of a tool is answered in the next message, which holds nothing else
    (S2C-04).
    """
    used: list[Any] = []
    for message in [*messages, {"content": []}]:
        content = message["content"] if isinstance(message["content"], list) else [message["content"]]
        results = [block.get("toolUseId") for block in content if block.get("type") == "tool_result"]
        if results != used or (results and len(results) < len(content)):
            raise ValueError(
                "each tool_use is answered by a tool_result in the next message, in the same order and with "
                "nothing else"
            )
        used = [block.get("id") for block in content if block.get("type") == "tool_use"]


# -- What a revision can receive ---------------------------------------------------------


def fit(question: Question, revision: str) -> dict[str, Any]:
    """The params as `revision` knows them. Raises `CannotAsk`."""
    if question.method == ELICIT:
        return _fit_elicitation(question.params, revision)
    if question.method == SAMPLE and revision < revisions.V2025_11_25:
        return _fit_sampling(question.params, revision)
    return question.params


def _fit_elicitation(params: dict[str, Any], revision: str) -> dict[str, Any]:
    if revision < revisions.V2025_06_18:
        raise CannotAsk(f"revision {revision} has no elicitation")
    if revision >= revisions.FIRST_STATELESS:
        return {key: value for key, value in params.items() if key != "elicitationId"}  # MRTR-03
    return params if revision >= revisions.V2025_11_25 else _fit_form(params, revision)


def _fit_sampling(params: dict[str, Any], revision: str) -> dict[str, Any]:
    if "tools" in params or "toolChoice" in params:
        raise CannotAsk(f"sampling in revision {revision} has no tools")
    return {**params, "messages": [_fit_message(message, revision) for message in params["messages"]]}


def _fit_message(message: dict[str, Any], revision: str) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, list):
        raise CannotAsk(f"a sampling message has one block of content in revision {revision}")
    if content["type"] not in _BLOCKS or (content["type"] == "audio" and revision < revisions.V2025_03_26):
        raise CannotAsk(f"sampling in revision {revision} has no content of type {content['type']}")
    typed = msgspec.convert(message, types.PromptMessage)
    narrowed: dict[str, Any] = msgspec.to_builtins(revisions.narrow(typed, revision))
    return narrowed


def _fit_form(params: dict[str, Any], revision: str) -> dict[str, Any]:
    if params.get("mode") == "url":
        raise CannotAsk(f"elicitation in revision {revision} has no URLs")
    schema = params["requestedSchema"]
    members = {name: _fit_member(name, member, revision) for name, member in schema["properties"].items()}
    rest = {key: value for key, value in params.items() if key != "mode"}
    fitted = {key: value for key, value in schema.items() if key != "$schema"}
    return {**rest, "requestedSchema": {**fitted, "properties": members}}


def _fit_member(name: str, member: dict[str, Any], revision: str) -> dict[str, Any]:
    if member.get("type") == "array":
        raise CannotAsk(f"a form has no lists in revision {revision} (field {name!r})")
    if member.get("type") != "boolean":
        member = {key: value for key, value in member.items() if key != "default"}
    options = member.get("oneOf")
    if options is None:
        return member
    titled = {
        "enum": [option["const"] for option in options],
        "enumNames": [option["title"] for option in options],
    }
    return {key: value for key, value in member.items() if key != "oneOf"} | titled
