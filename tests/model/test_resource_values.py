"""What a resource may return, and what a client reads."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import App, EmbeddedResource, Image, Text
from mcpkit.testing import Client

PNG = b"\x89PNG\r\n\x1a\n"


class Markdown(str):
    """A string of one's own."""


@pytest.mark.parametrize(
    ("value", "text", "blob", "mime_type"),
    [
        ("plain", "plain", None, "text/plain"),
        (Markdown("# Title"), "# Title", None, "text/plain"),
        (b"\x00\x01", None, b"\x00\x01", "application/octet-stream"),
        ({"a": [1]}, '{"a":[1]}', None, "application/json"),
        (Image(PNG), None, PNG, "image/png"),
        (Text("said"), "said", None, "text/plain"),
        (EmbeddedResource("x://other", text="inside", mime_type="text/html"), "inside", None, "text/html"),
    ],
    ids=["str", "str-subclass", "bytes", "dict", "image", "text", "embedded"],
)
async def test_a_resource_is_text_a_blob_or_json(value: Any, text: Any, blob: Any, mime_type: str) -> None:
    """DESIGN 4.3: `str` is text, `bytes` a blob, anything else JSON; content says itself what it is."""
    app = App("resources")

    def read():
        return value

    app.add_resource(read, "x://it")
    async with Client(app) as client:
        (contents,) = await client.read_resource("x://it")
    assert (contents.text, contents.blob, contents.mime_type) == (text, blob, mime_type)


async def test_an_image_is_not_listed_as_json() -> None:
    """A MIME type that only the value can tell is left out of the list."""
    app = App("resources")

    @app.resource
    def logo() -> Image:
        return Image(PNG)

    async with Client(app) as client:
        (listed,) = await client.list_resources()
    assert listed.mime_type is None
