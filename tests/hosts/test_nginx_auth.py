"""Auth behind a real nginx, which gives the server TLS, a name and a prefix."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from hosts.nginx import NAME, behind_nginx, needs_nginx
from hosts.process import serving_http
from support import OVER_HTTP, STATELESS, request

pytestmark = [needs_nginx, OVER_HTTP]

GUARDED = Path(__file__).parents[1] / "auth" / "scripts" / "guarded.py"


@pytest.mark.parametrize("well_known", ["as the challenge says", "at the root of the origin"])
def test_the_metadata_is_found_and_names_the_url_that_was_typed(well_known: str) -> None:
    """PITFALLS, Auth: below a proxy prefix. nginx takes the prefix away from the one URL, and not from the other."""
    options = ("--allow-host", NAME, "--trusted-proxy", "127.0.0.1")
    typed = f"https://{NAME}/prefix/mcp"
    with serving_http(GUARDED, *options) as (_, url), behind_nginx(url.removesuffix("/mcp")) as transport:
        headers = {"Host": NAME, "Content-Type": "application/json"}
        with httpx.Client(transport=transport(), base_url="https://127.0.0.1", headers=headers) as client:
            refused = client.post("/prefix/mcp", json=request(1, "server/discover", revision=STATELESS))
            assert refused.status_code == 401
            pointer = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
            assert pointer == f"https://{NAME}/prefix/.well-known/oauth-protected-resource/mcp"
            path = pointer.removeprefix(f"https://{NAME}")
            if well_known != "as the challenge says":
                path = "/.well-known/oauth-protected-resource/prefix/mcp"
            assert client.get(path).json()["resource"] == typed
