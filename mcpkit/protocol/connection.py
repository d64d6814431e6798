"""One connection: messages in, events out; events in, messages out. No clock, no I/O, no tasks.

Rule 1. Each `Call` that comes out is answered by exactly one `Answer` or `Failure` given to `send`, or given
        up with `Dropped`. After that, and after a cancellation, whatever else is sent about the call vanishes
        here (STD-04, PROG-03), so the engine need not care.
Rule 2. Calls in flight are known by their id with its type: 1 and "1" are two calls (RPC-02). An id in use
        again is refused, and the first call goes on (RPC-09).
Rule 3. `receive` never raises for what a client sent: what cannot be served comes out as `Refuse`, which
        holds its own reply.

    state          initialize            other handshake requests      stateless requests
    fresh          -> session            refused, except ping          served
    session        refused               served                        served
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpkit.protocol import eras, events, headers, jsonrpc, methods, revisions, types
from mcpkit.protocol.errors import InvalidRequest, McpError
from mcpkit.protocol.types import RequestId

MAX_SUBSCRIPTIONS = 10_000
"""Resources that one session, or one stream, hears of."""

MAX_URI = 8_192
"""Characters of a URI that a session subscribes to: they are kept."""

MAX_BATCH = 1000
"""Messages in one batch; more are refused (BAT-06)."""

_REMEMBERED = {"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
"""Methods that change what is known of the session."""
_ENDS = (events.Answer, events.Failure, events.Dropped)


class Connection:
    """The protocol's state on one connection (a process on stdio). With `null_ids`, an error that answers to no id
    has the id null where the session's revision demands one; over HTTP it has none (RPC-06).
    """

    def __init__(
        self, identity: events.Identity, session: events.Envelope | None = None, *, null_ids: bool = True
    ) -> None:
        self._identity = identity
        self._null_ids = null_ids
        self.session = session
        """What a handshake settled; None before one, and where there is none."""
        self.subscribed: set[str] = set()
        """The resources that the session subscribed to."""
        self._calls: dict[RequestId, events.Call] = {}

    @property
    def idle(self) -> bool:
        """Whether no call waits for its answer."""
        return not self._calls

    def wants(self, change: events.Change) -> bool:
        """Whether the session is to hear of a change."""
        return change.uri is None or change.uri in self.subscribed

    # -- in ------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[events.Received]:
        """What one JSON text means: nothing, one event, or one for each element of a batch."""
        if data[:1] != b"{" and jsonrpc.is_array(data):
            return self._receive_batch(data)
        event = self._receive_one(data)
        return [] if event is None else [event]

    def refuse_oversized(self, beginning: bytes, limit: int) -> events.Refuse:
        """The answer to a message of more than `limit` bytes, of which only the beginning was kept."""
        problem = InvalidRequest(f"The message is larger than the limit of {limit:,} bytes")
        return events.Refuse(problem, jsonrpc.peek_id(beginning))

    def _receive_batch(self, data: bytes) -> list[events.Received]:
        if not eras.allows_batch(self.session):
            problem = (
                "Batches exist only in revision 2025-03-26, after initialize: send each message by itself"
            )
            return [events.Refuse(InvalidRequest(problem), None)]
        try:
            items = jsonrpc.decode_batch(data)
        except jsonrpc.Malformed as malformed:
            return [events.Refuse(malformed.error, None)]
        if not 1 <= len(items) <= MAX_BATCH:
            return [events.Refuse(InvalidRequest(f"A batch holds 1 to {MAX_BATCH:,} messages"), None)]
        batch = events.Batch(0)
        received = [event for item in items if (event := self._receive_one(item, batch)) is not None]
        batch.waiting = sum(isinstance(event, events.Call | events.Refuse) for event in received)
        return received

    def _receive_one(self, data: bytes, batch: events.Batch | None = None) -> events.Received | None:
        try:
            data = jsonrpc.text(data)
            request = methods.read(data)
            if request is not None:
                return self._asked(request.id, request.row.name, request.params, data, None, batch)
            message = jsonrpc.decode(data)
        except jsonrpc.Malformed as malformed:
            return events.Refuse(malformed.error, malformed.id, batch)
        return self.receive_message(message, data, batch=batch)

    def receive_message(
        self,
        message: jsonrpc.Message,
        data: bytes,
        metadata: headers.Metadata | None = None,
        batch: events.Batch | None = None,
    ) -> events.Received | None:
        """What the message in `data` means; see `eras.identify` for `metadata`."""
        if message.method is UNSET:
            if self.session is None or message.id is UNSET or message.id is None:
                return None  # a response, but nothing was asked
            return events.Reply(message.id, message.result, message.error)
        if message.id is UNSET or message.id is None:
            return self._notified(message.method, message.params)
        params = methods.decode_params(message.method, message.params)
        return self._asked(message.id, message.method, params, data, metadata, batch)

    def _asked(
        self,
        request_id: RequestId,
        method: str,
        params: types.Params | McpError,
        data: bytes,
        metadata: headers.Metadata | None,
        batch: events.Batch | None,
    ) -> events.Call | events.Refuse:
        try:
            envelope = eras.identify(method, params, data, self.session, metadata)
            if isinstance(params, McpError):
                raise params
            if request_id in self._calls:
                raise InvalidRequest(
                    "This id belongs to a request that is still being served: use another one"
                )
            if method in _REMEMBERED:
                envelope = self._remember(method, params, envelope)
        except McpError as error:
            return events.Refuse(error, request_id, batch)
        call = events.Call(request_id, methods.METHODS[method], params, data, envelope, batch)
        self._calls[request_id] = call
        return call

    def _remember(self, method: str, params: types.Params, envelope: events.Envelope) -> events.Envelope:
        """Take note of a request that changes the session."""
        if isinstance(params, types.InitializeParams):
            envelope = self.session = eras.negotiate(params)
        elif isinstance(params, types.SetLevelParams):
            envelope.log_level = params.level
        elif isinstance(params, types.SubscribeParams):
            self._subscribe(method, params.uri)
        return envelope

    def _subscribe(self, method: str, uri: str) -> None:
        if method == "resources/unsubscribe":
            self.subscribed.discard(uri)
        elif len(uri) > MAX_URI:
            raise InvalidRequest(
                f"A resource that is subscribed to has a URI of at most {MAX_URI:,} characters"
            )
        elif len(self.subscribed) >= MAX_SUBSCRIPTIONS and uri not in self.subscribed:
            raise InvalidRequest(f"A session subscribes to at most {MAX_SUBSCRIPTIONS:,} resources")
        else:
            self.subscribed.add(uri)

    def _notified(self, method: str, raw: Raw | UnsetType) -> events.Cancel | events.Initialized | None:
        """Only two notifications matter; any other, and a malformed one, is ignored (RPC-04, CAN-02)."""
        if method == "notifications/initialized" and self.session is not None:
            return events.Initialized()
        if method != "notifications/cancelled" or isinstance(raw, UnsetType):
            return None
        try:
            request_id = _decode_cancelled(raw).request_id
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return None
        call = self._calls.pop(request_id, None)
        return None if call is None else events.Cancel(call)

    # -- out -----------------------------------------------------------------------------

    def send(self, event: events.Sent) -> bytes | None:
        """The line for `event`, without its end; None when there is nothing to send (now).

        Raises TypeError, ValueError or RecursionError for a value that has no JSON form; the call is then
        still to be answered.
        """
        if isinstance(event, _ENDS):
            return self._end(event)
        if isinstance(event, events.Refuse):
            return _into_batch(event.batch, self._encode_refusal(event))
        if isinstance(event, events.Notify) and event.call is None:
            return _encode_change(event.change, None)
        assert event.call is not None
        if self._calls.get(event.call.id) is not event.call:
            return None
        if isinstance(event, events.Progress):
            return _encode_progress(event)
        if isinstance(event, events.Log):
            return _encode_log(event)
        if isinstance(event, events.Notify):
            return _encode_change(event.change, eras.subscription_meta(event.call.id))
        params = types.AcknowledgedParams(event.honoured, eras.subscription_meta(event.call.id))
        return jsonrpc.notification("notifications/subscriptions/acknowledged", params)

    def _end(self, event: events.Answer | events.Failure | events.Dropped) -> bytes | None:
        call = event.call
        line = None
        if self._calls.get(call.id) is call:
            if isinstance(event, events.Answer):
                line = self._encode_answer(event)
            elif isinstance(event, events.Failure):
                line = self._encode_failure(event)
            del self._calls[call.id]
        return line if call.batch is None else _into_batch(call.batch, line)

    def cancelled(self, call: events.Call) -> bytes:
        """The notification that the server ends a subscription; only on stdio."""
        params = types.CancelledNotice(call.id, "The server ends")
        return jsonrpc.notification("notifications/cancelled", params)

    def _encode_answer(self, event: events.Answer) -> bytes:
        call, result = event.call, event.result
        if not isinstance(result, Raw):
            subscription = call.id if call.method.streams else None
            result = eras.seal(
                result, call.envelope, self._identity, wrap=event.wrap, subscription=subscription
            )
        return jsonrpc.result(call.id, result)

    def _encode_failure(self, event: events.Failure) -> bytes:
        call = event.call
        if isinstance(call.params, types.SubscribeParams):
            self.subscribed.discard(call.params.uri)  # a subscription that is refused is none
        return jsonrpc.error(call.id, eras.error_object(event.error, call.envelope))

    def _encode_refusal(self, refusal: events.Refuse) -> bytes:
        unreadable = eras.unreadable_id(self.session) if self._null_ids else UNSET
        request_id = unreadable if refusal.id is None else refusal.id
        return jsonrpc.error(request_id, eras.error_object(refusal.error, None))


def _into_batch(batch: events.Batch | None, line: bytes | None) -> bytes | None:
    """A reply outside a batch as it is; inside one, all replies once the last is known."""
    if batch is None:
        return line
    batch.waiting -= 1
    if line is not None:
        batch.replies.append(line)
    if batch.waiting or not batch.replies:
        return None
    return b"[" + b",".join(batch.replies) + b"]"


def _encode_progress(event: events.Progress) -> bytes | None:
    """Nothing without a token, and nothing for a value that does not increase (PROG-01, PROG-02)."""
    call = event.call
    if isinstance(call.progress_token, UnsetType):
        return None
    if call.progress is not None and event.progress <= call.progress:
        return None
    call.progress = event.progress
    params = types.ProgressParams(call.progress_token, event.progress, event.total, event.message)
    return jsonrpc.notification("notifications/progress", revisions.narrow(params, call.envelope.revision))


def _encode_log(event: events.Log) -> bytes | None:
    """Nothing below the level that the client asked for; nothing at all when a stateless request asked for
    none (LOG-02, LOG-03).
    """
    least = event.call.envelope.log_level
    if least is None or types.LOG_LEVELS.index(event.level) < types.LOG_LEVELS.index(least):
        return None
    return jsonrpc.notification(
        "notifications/message", types.LogParams(event.level, event.data, event.logger)
    )


_CHANGES = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "resource": "notifications/resources/updated",
}


def _encode_change(change: events.Change, meta: types.Meta | None) -> bytes:
    params = types.ChangeParams(change.uri, meta)
    return jsonrpc.notification(_CHANGES[change.kind], params if change.uri or meta else UNSET)


_decode_cancelled = msgspec.json.Decoder(types.CancelledParams).decode
