"""What every HTTP server here allows its clients, whatever it is made of.

Source: RFC 9112 sections 9.3 to 9.6 (persistence, time-outs, tear-down).
"""

from __future__ import annotations

MAX_HEADER_BYTES = 32 * 1024
"""Bytes of all headers of a request together."""
HEAD_SECONDS = 5.0
"""How long the head of a request may take to arrive."""
IDLE_SECONDS = 75.0
"""How long a connection may be silent between two requests; longer than a proxy keeps one that it may use again."""
LAST_SECONDS = 0.2
"""How long an idle connection stays when the server ends: its next request may be on the way."""
LINGER_SECONDS = 2.0
"""How long a client may go on sending after the last answer."""
SMALL_BODY = 64 * 1024
"""Bytes of a body that nobody wants which are read all the same, so that the connection can go on."""
SOON_SECONDS = 1.0
"""How long they may take."""
PIECE = 64 * 1024
"""Bytes of an answer that a client has the send time-out for."""
