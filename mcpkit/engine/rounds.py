"""The rounds of a handler that asks: where it takes up, and what the client gets when a round ends without a
result.

What the handler knows goes into a sealed state that the client brings back. It is bound to who asks, and to what is
asked for: method, the name of the tool, prompt or resource, and the arguments. A long journal stays in the app's
store, and the state holds its name.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from mcpkit.context import QUESTION_SECONDS, Port
from mcpkit.engine.asking import Asker, Dialogue, Live, Resumed
from mcpkit.engine.runtime import Runtime
from mcpkit.errors import ToolError
from mcpkit.handler import Handler
from mcpkit.journal import Journal, Pages, Suspended, check_responses
from mcpkit.protocol import eras, events, types
from mcpkit.protocol.errors import InvalidParams, MissingCapability
from mcpkit.protocol.questions import RESULTS, fit, needs
from mcpkit.questions import InputRequired, Unavailable
from mcpkit.seal import SealBroken

MAX_INLINE = 16 * 1024
"""Characters of a sealed journal that travels through the client; a longer one goes to the store."""

RETRY_SECONDS = 1.0
"""In the handshake era: until a handler runs again that returned a state and asked nothing."""

_HERE, _STORED = b"h", b"s"

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode_pages = msgspec.json.Decoder(Pages).decode


def may_ask(handlers: Iterable[Handler], call: events.Call) -> bool:
    """Whether handlers need a dialogue: one has a context to ask through, or the client comes back to them."""
    params: Any = call.params  # they are `ResumableParams`
    if params.request_state is not UNSET or params.input_responses is not UNSET:
        return True
    for handler in handlers:  # noqa: SIM110 - `any` takes a generator, which takes longer than the rest of this
        if handler.talks:
            return True
    return False


async def begin(runtime: Runtime, call: events.Call, port: Port) -> Dialogue:
    """The dialogue of a call: a fresh one, or one that goes on where its state says. Raises `InvalidParams`
    for a state that does not belong to this request, and for answers that are none.
    """
    params = call.params
    assert isinstance(params, types.ResumableParams)
    if not eras.suspends(call.envelope):
        return Live(call, cast(Asker, port))  # the ports of the handshake era can ask
    responses = {} if isinstance(params.input_responses, UnsetType) else params.input_responses
    if isinstance(params.request_state, UnsetType):
        pages = Pages(brought=_unasked(responses))
    else:
        pages = await _open(runtime, call, params.request_state)
        pages.brought |= check_responses(pages.wanted, responses)
        pages.wanted = {}
    brought = {key: msgspec.json.decode(value) for key, value in pages.brought.items()}
    return Resumed(call, Journal(pages, responses), brought)


def _unasked(responses: Mapping[str, Raw]) -> dict[str, Raw]:
    """Responses without a state: to the questions of a handler that keeps none (MRTR-11), so that it is not
    known here what was asked.
    """
    for key, response in responses.items():
        if not any(_is_result(_decoded(response), kind) for kind in RESULTS.values()):
            raise InvalidParams(f"inputResponses.{key} is no result of anything that can be asked")
    return dict(responses)


def _decoded(response: Raw) -> Any:
    try:
        return msgspec.json.decode(response)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _is_result(value: Any, kind: type[Any]) -> bool:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


async def ask(call: events.Call, port: Port, dialogue: Dialogue, wanted: InputRequired) -> Dialogue:
    """Ask what a handler returned; the dialogue to call it again with. In the stateless era the round ends:
    raises `Suspended`. When the client cannot be asked, raises `MissingCapability` there, and `ToolError` in the
    handshake era, as also when it gives no answer.
    """
    questions = {key: question.question for key, question in wanted.questions.items()}
    refused = {key: reason for key, question in questions.items() if (reason := dialogue.refusal(question))}
    if isinstance(dialogue, Resumed):
        if refused:
            raise MissingCapability(_merged(needs(questions[key]) for key in refused))
        methods = {key: question.method for key, question in questions.items()}
        raise Suspended(
            questions, Pages(state=wanted.state, wanted=methods if wanted.state is not None else {})
        )
    for reason in refused.values():
        raise ToolError(f"This client cannot be asked for what is needed here: {reason}")
    if not questions:
        await trio.sleep(RETRY_SECONDS)
    following = Live(call, cast(Asker, port), state=wanted.state)
    following.responses = await following.ask(questions, QUESTION_SECONDS)
    for key, answer in following.responses.items():
        if isinstance(answer, Unavailable):
            raise ToolError(f"There was no answer: {answer.reason}")
        if not _is_result(answer, RESULTS[questions[key].method]):
            raise ToolError("There was no answer: what the client sent is none")
    return following


def _merged(trees: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Capabilities, put together (ERR-04)."""
    merged: dict[str, Any] = {}
    for tree in trees:
        for name, details in tree.items():
            merged[name] = merged.get(name, {}) | details
    return merged


async def suspend(runtime: Runtime, call: events.Call, suspended: Suspended) -> types.InputRequiredResult:
    """What the client gets when a round ends with questions."""
    revision = call.envelope.revision
    requests = {key: types.InputRequest(q.method, fit(q, revision)) for key, q in suspended.questions.items()}
    pages = suspended.pages
    return types.InputRequiredResult(
        result_type="input_required",
        input_requests=requests or None,
        request_state=None if pages == _NOTHING else await _seal(runtime, call, msgspec.json.encode(pages)),
    )


_NOTHING = Pages()


async def _seal(runtime: Runtime, call: events.Call, pages: bytes) -> str:
    binding = _binding(call)
    state = runtime.sealer.seal(_HERE + pages, binding)
    if len(state) <= MAX_INLINE:
        return state
    name = secrets.token_urlsafe(24)
    await runtime.store.put(f"journal:{name}", state.encode(), runtime.app.state_ttl)
    return runtime.sealer.seal(_STORED + name.encode(), binding)


async def _open(runtime: Runtime, call: events.Call, state: str) -> Pages:
    """The pages in a state. Raises `InvalidParams`, always the same (MRTR-06)."""
    binding = _binding(call)
    try:
        content = runtime.sealer.open(state, binding)
        if content[:1] == _STORED:
            kept = await runtime.store.get(f"journal:{content[1:].decode()}")
            content = runtime.sealer.open((kept or b"").decode("latin-1"), binding)
        return _decode_pages(content[1:])
    except (SealBroken, msgspec.ValidationError):  # sealed by this server, by another, by another version
        raise InvalidParams(
            "requestState is not valid for this request, or has expired: start again without it"
        ) from None


def _binding(call: events.Call) -> bytes:
    """Who asks for what. Arguments count as JSON values: a client may write them differently when it comes
    again.
    """
    params = call.params
    name = getattr(params, call.method.named_by) if call.method.named_by else ""
    arguments: Any = getattr(params, "arguments", None)
    subject = ["" if call.principal is None else str(call.principal), call.method.name, name]
    if not isinstance(arguments, Raw):
        return _digest([*subject, {} if arguments in (None, UNSET) else arguments])
    try:
        return _digest([*subject, msgspec.json.decode(arguments) or {}])
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError):
        return _digest([*subject, bytes(arguments)])  # too deep or too large to be compared as values


def _digest(subject: list[Any]) -> bytes:
    return hashlib.sha256(_encode_sorted(subject)).digest()
