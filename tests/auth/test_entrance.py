"""What is served must come through the entrance."""

from __future__ import annotations

import random
import re

from auth.authkit import GUARDED, bearer
from kit import discover, encoded, eventually, headers_for, serving


def test_random_headers_get_nobody_in() -> None:
    """Whatever bytes come: an answer of ours, never a 5xx, and the server goes on."""
    chance = random.Random(7)
    with serving(GUARDED, "--trusted-proxy", "127.0.0.1") as server:
        names = (
            "Authorization",
            "Host",
            "Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Prefix",
        )
        parts = [
            "Bearer",
            "ann",
            " ",
            ",",
            ";",
            "=",
            '"',
            "\\",
            "for",
            "host",
            "/",
            "..",
            "[",
            "]",
            ":",
            "%",
            "\xff",
            "1",
        ]
        for _ in range(400):
            headers = {
                chance.choice(names): "".join(chance.choices(parts, k=chance.randrange(12))) for _ in range(3)
            }
            path = chance.choice(
                ["/mcp", "/.well-known/oauth-protected-resource/" + "".join(chance.choices(parts[2:], k=4))]
            )
            path = path.replace(" ", "+").replace("\xff", "%ff")
            response = server.ask(
                "POST", [*headers_for(discover()).items(), *headers.items()], encoded(discover()), path=path
            )
            assert (
                response.status in (400, 401, 403, 404, 405, 429)
                or headers.get("Authorization") == "Bearer ann"
            )
        assert server.post(discover(), bearer("ann")).status == 200


def test_the_access_log_has_refusals_and_no_tokens() -> None:
    """What an operator looks for first; a token in a log is lost."""
    with serving(GUARDED, "-v") as server:
        server.post(discover(), bearer("some-wrong-token"))
        server.ask("GET", {}, None, path="/.well-known/oauth-protected-resource/mcp?access_token=another")
        server.post(discover(), bearer("ann-write"))
        eventually(lambda: "server/discover id=discover 200" in server.errors, "the last line")
        for line in ("POST /mcp 401 -32600", "GET /.well-known/oauth-protected-resource/mcp 200"):
            assert re.search(rf"^mcpkit: {line} \d+\.\d ms$", server.errors, re.MULTILINE)
        assert not [token for token in ("wrong-token", "another", "ann-write") if token in server.errors]
