"""All sessions of a server over Streamable HTTP.

The table keeps live sessions; what makes a session (revision, client, capabilities, level of logs, subscriptions)
stands in the `Store` as well, so that a process that does not know it can take it over. A session that is there no
more has ended, whichever process ended it.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

import msgspec
import trio
from msgspec import Struct

from mcpkit.engine.runtime import Runtime
from mcpkit.protocol import events
from mcpkit.protocol.connection import Connection
from mcpkit.stores.base import StoreError
from mcpkit.transports.sessions import Session


class Record(Struct):
    """What makes a session."""

    envelope: events.Envelope
    owner: str
    subscribed: list[str]


class TooManySessions(Exception):
    """The table is full."""


class Table:
    """All sessions of a server."""

    def __init__(self, runtime: Runtime, *, most: int, idle: float) -> None:
        self._runtime = runtime
        self._store = runtime.store
        self._most = most
        self._idle = idle
        self._live: dict[str, Session] = {}

    async def open(self, connection: Connection, owner: str) -> Session:
        """A new session. Raises `TooManySessions`, `StoreError`."""
        session = self._add(Session(secrets.token_urlsafe(24), connection, owner, self._runtime))
        try:
            await self._save(session)
        except BaseException:
            self._drop(session)
            raise
        return session

    async def find(self, session_id: str, owner: str) -> Session | None:
        """The session of an id, if it is this principal's. Raises `TooManySessions`, `StoreError`."""
        saved = await self._saved(session_id)
        session = self._live.get(session_id)
        if saved is None:
            if session is not None:
                self._drop(session)
            return None
        if session is None or saved != session.record:
            session = self._restore(session_id, session, saved, owner)
        if session is None or session.owner != owner:
            return None
        session.used = trio.current_time()
        await self.keep(session)
        return session

    async def keep(self, session: Session) -> None:
        """Write a session to the store when it has changed, and now and then. Raises `StoreError`."""
        if trio.current_time() - session.saved > self._idle * _MARGIN:
            await self._save(session)

    async def close(self, session: Session) -> None:
        """Forget a session; its id is never used again. Raises `StoreError`."""
        self._drop(session)
        await self._store.delete(_name(session.id))

    def end(self) -> None:
        """End the streams that no answer will end. Calls go on: whoever gave them time to, cancels them. The store
        keeps the sessions for another process.
        """
        for session in self._live.values():
            session.standalone.end()

    async def sweep_forever(self) -> None:
        """Forget idle sessions, now and then, and keep those whose client only listens."""
        while True:
            await trio.sleep(min(60.0, max(0.05, self._idle / 4)))
            self._sweep()
            await self._keep_busy()

    async def _keep_busy(self) -> None:
        for session in [session for session in self._live.values() if session.busy]:
            with suppress(StoreError):
                await self.keep(session)

    def _sweep(self) -> None:
        for session in [session for session in self._live.values() if self._is_over(session)]:
            self._drop(session)

    def _is_over(self, session: Session) -> bool:
        return not session.busy and session.used < trio.current_time() - self._idle

    def _add(self, session: Session) -> Session:
        if len(self._live) >= self._most:
            self._sweep()
        if len(self._live) >= self._most:
            raise TooManySessions(f"There are {self._most:,} sessions; try again later")
        self._live[session.id] = session
        return session

    def _drop(self, session: Session) -> None:
        self._live.pop(session.id, None)
        session.end()

    async def _save(self, session: Session) -> None:
        record = Record(session.envelope, session.owner, sorted(session.connection.subscribed))
        session.record = msgspec.json.encode(record)
        session.saved = trio.current_time()
        await self._store.put(_name(session.id), session.record, self._idle * (1 + _MARGIN))

    async def _saved(self, session_id: str) -> bytes | None:
        if len(session_id) > _LONGEST_ID:
            return None
        try:
            return await self._store.get(_name(session_id))
        except StoreError:
            if session_id not in self._live:
                raise
            return self._live[session_id].record  # this process knows enough to go on

    def _restore(self, session_id: str, session: Session | None, saved: bytes, owner: str) -> Session | None:
        """A session as another process has left it."""
        record = msgspec.json.decode(saved, type=Record)
        if record.owner != owner:
            return None
        if session is None:
            connection = Connection(self._runtime.identity, record.envelope, null_ids=False)
            session = self._add(Session(session_id, connection, owner, self._runtime))
        session.envelope.log_level = record.envelope.log_level
        session.connection.subscribed = set(record.subscribed)
        session.record = saved
        return session


_LONGEST_ID = 200
_MARGIN = 0.05
"""Of the idle time: how long after a write to the store a use is not written, so that not each one is."""


def _name(session_id: str) -> str:
    return f"session:{session_id}"
