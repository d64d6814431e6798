"""The ways in which the corpus is replayed; each conversation is played once."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Awaitable, Callable

import pairs
import play
import play_http
import play_sse
import trio
from pairs import Case, Conversation
from play import Answer

Way = tuple[str, Callable[[Conversation], Awaitable[dict[str, Answer]]]]

WAYS: dict[str, Way] = {
    "memory": ("stdio", functools.partial(play.play, connect=play.memory)),
    "stdio": ("stdio", functools.partial(play.play, connect=play.stdio)),
    "sse": ("stdio", functools.partial(play.play, connect=play_sse.connect)),
    "http": ("http", play_http.play),
}
"""What the manifest calls the transport, and how it is played."""


@functools.cache
def played(way: str, conversation: Conversation) -> dict[str, Answer] | str:
    """What came back on one connection, or why it broke."""
    try:
        return trio.run(WAYS[way][1], conversation)
    except Exception as error:
        return "".join(traceback.format_exception(error))


def answer(way: str, case: Case) -> Answer:
    """What came back for a case."""
    answers = played(way, pairs.conversation_of(case.name, WAYS[way][0]))
    assert isinstance(answers, dict), answers
    return answers[case.name]
