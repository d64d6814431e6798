"""What handlers return: content blocks, full results, prompt messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mcpkit.checks import check_wire
from mcpkit.meta import check_meta
from mcpkit.protocol import types
from mcpkit.protocol.types import Annotations, ContentBlock, Icon, Role

__all__ = [
    "Annotations",
    "Audio",
    "EmbeddedResource",
    "Icon",
    "Image",
    "Message",
    "PromptResult",
    "ResourceLink",
    "Text",
    "ToolResult",
    "assistant",
    "user",
]


class Block:
    """A piece of content. `wire` is what is sent for it."""

    wire: ContentBlock

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.wire == getattr(other, "wire", None)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wire!r})"


class Text(Block):
    """A block of text."""

    def __init__(self, text: str, annotations: Annotations | None = None) -> None:
        self.wire = check_wire(types.TextContent(plain(text), annotations))


class Image(Block):
    """An image: its bytes, or the path of its file, which is read at once. The MIME type is told from the
    bytes, else from the path.

    Raises OSError when the file cannot be read, ValueError when the type is not given and cannot be told.
    """

    def __init__(
        self,
        data_or_path: bytes | str | os.PathLike[str],
        mime_type: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        data, mime_type = _read(data_or_path, mime_type, _image_type)
        self.wire = check_wire(types.ImageContent(data, mime_type, annotations))


class Audio(Block):
    """A sound: its bytes, or the path of its file, which is read at once. Raises like `Image`."""

    def __init__(
        self,
        data_or_path: bytes | str | os.PathLike[str],
        mime_type: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        data, mime_type = _read(data_or_path, mime_type, _audio_type)
        self.wire = check_wire(types.AudioContent(data, mime_type, annotations))


class ResourceLink(Block):
    """A pointer to a resource that the client may read. The name is the last part of the URI unless given;
    `size` is in bytes.
    """

    def __init__(
        self,
        uri: str,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        name = name or uri.rstrip("/").rpartition("/")[2] or uri
        link = types.ResourceLinkContent(uri, name, title, description, mime_type, size, annotations)
        self.wire = check_wire(link)


class EmbeddedResource(Block):
    """A resource's contents, sent along: exactly one of `text` and `blob` (bytes). Raises ValueError
    otherwise.
    """

    def __init__(
        self,
        uri: str,
        *,
        text: str | None = None,
        blob: bytes | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        if (text is None) == (blob is None):
            raise ValueError(f"EmbeddedResource({uri!r}) needs either text= or blob=")
        self.contents = types.ResourceContents(uri, mime_type, text, blob)
        self.wire = check_wire(types.EmbeddedResourceContent(self.contents, annotations))


class ToolResult:
    """Full control over the result of a tool.

    `content` is a string, a block, or a list of both; `structured` any JSON-encodable value; `is_error` tells
    the model that the call failed; `meta` goes into `_meta`. Raises ValueError for a `_meta` key that the
    protocol owns.
    """

    _unset: Any = object()

    def __init__(
        self,
        content: str | Block | Iterable[str | Block] | None = None,
        structured: Any = _unset,
        is_error: bool = False,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.content = content
        self.structured = structured
        self.is_error = is_error
        self.meta = check_meta(meta)

    @property
    def has_structured(self) -> bool:
        """Whether `structured` was given; None is a value."""
        return self.structured is not self._unset


class Message:
    """One message of a prompt: `role` is "user" or "assistant", `content` a string or a block."""

    def __init__(self, role: Role, content: str | Block) -> None:
        if role not in ("user", "assistant"):
            raise ValueError(f"a message is from the user or the assistant, not from {role!r}")
        self.wire = types.PromptMessage(role, block(content))


def user(content: str | Block) -> Message:
    """A message from the user."""
    return Message("user", content)


def assistant(content: str | Block) -> Message:
    """A message from the assistant."""
    return Message("assistant", content)


class PromptResult:
    """The messages of a prompt, with a description."""

    def __init__(self, description: str | None, messages: str | Message | Iterable[str | Message]) -> None:
        self.description = description
        self.messages = messages


def plain(text: Any) -> Any:
    """What a string of a subclass is in itself; anything else as it is."""
    return str.__str__(text) if isinstance(text, str) else text


def is_block_type(cls: Any) -> bool:
    """Whether values of the type are content: our blocks, and what shows itself as a PNG (Pillow's images)."""
    return isinstance(cls, type) and (issubclass(cls, Block) or hasattr(cls, "_repr_png_"))


def is_block(value: Any) -> bool:
    """Whether `block` takes it."""
    return isinstance(value, str) or is_block_type(type(value))


def block(value: Any) -> ContentBlock:
    """What is sent for a string, a block, or an image of another library. Raises TypeError for anything else."""
    if isinstance(value, str):
        return types.TextContent(plain(value))
    if isinstance(value, Block):
        return value.wire
    if is_block_type(type(value)):
        return _png(value)
    raise TypeError(f"content is a string or a block such as Text or Image, not {type(value).__name__}")


def _png(value: Any) -> ContentBlock:
    data = value._repr_png_()
    if not isinstance(data, bytes):
        raise TypeError(
            f"this {type(value).__name__} cannot be written as PNG: pass its bytes to mcpkit's Image"
        )
    return types.ImageContent(data, "image/png")


def blocks(value: Any) -> list[ContentBlock]:
    """What is sent for content: nothing, one string or block, or an iterable of them."""
    if value is None:
        return []
    if is_block(value):
        return [block(value)]
    return [block(item) for item in value]


def messages(value: Any) -> list[types.PromptMessage]:
    """What is sent for the messages of a prompt; a string is a message from the user."""
    if isinstance(value, Message) or is_block(value):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise TypeError(f"a prompt returns a string, a Message or a list of them, not {type(value).__name__}")
    return [item.wire if isinstance(item, Message) else user(item).wire for item in value]


# -- MIME types --------------------------------------------------------------------------


def _read(
    source: bytes | str | os.PathLike[str], mime_type: str | None, tell: Callable[[bytes], str | None]
) -> tuple[bytes, str]:
    data = bytes(source) if isinstance(source, bytes | bytearray | memoryview) else Path(source).read_bytes()
    mime_type = mime_type or tell(data[:16])
    if mime_type is None and not isinstance(source, bytes | bytearray | memoryview):
        import mimetypes  # slow to import, seldom needed

        mime_type = mimetypes.guess_type(Path(source).name)[0]
    if mime_type is None:
        raise ValueError('the MIME type cannot be told from the data: pass mime_type="image/png" or the like')
    return data, mime_type


def _image_type(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return _starts(
        head,
        {
            b"\x89PNG": "image/png",
            b"\xff\xd8\xff": "image/jpeg",
            b"GIF8": "image/gif",
            b"<svg": "image/svg+xml",
        },
    )


def _audio_type(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    return _starts(
        head, {b"ID3": "audio/mpeg", b"\xff\xfb": "audio/mpeg", b"OggS": "audio/ogg", b"fLaC": "audio/flac"}
    )


def _starts(head: bytes, kinds: dict[bytes, str]) -> str | None:
    return next((kind for magic, kind in kinds.items() if head.startswith(magic)), None)
