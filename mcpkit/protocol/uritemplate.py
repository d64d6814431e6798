"""URI templates: RFC 6570 levels 1 to 3 and the exploded path ``{/x*}``, expanded and matched.

Expansion is the table of RFC 6570 appendix A. Matching is ours, since the RFC leaves it open (section 1.4):

Rule 1. A URI matches when there are values that expand to it; they are returned percent-decoded. Two things
    are read that the RFC would not write: a non-ASCII character counts as its percent-encoding (RFC 3987
    section 3.1), and values may hold ``! * ' ( )``, as clients in JavaScript send them
    (encodeURIComponent), and ``@ : $``, as in ``users://{email}``, unencoded.
Rule 2. Literals are compared exactly.
Rule 3. A value is required, except in ``{?x,y}`` and ``{&x}``, whose parameters come in any order and may be
    absent. An unknown or repeated parameter does not match.
Rule 4. An empty value matches where the text proves that the variable was there: ``/``, ``.``, ``#``, ``;x``,
    ``?x=``, ``&x=``. In ``{x}`` and ``{+x}`` it could as well be undefined, so these need at least one
    character.
Rule 5. Where several splits fit, the leftmost variable decides. ``{+x}`` and ``{#x}`` take as little as they
    can, so that a query after them is seen; the others as much as they can: ``{name}.{ext}`` splits at the
    last dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mcpkit.protocol import urimatch
from mcpkit.protocol.urimatch import ANY, RESERVED, SEGMENTS, SIMPLE, UNRESERVED, Literal, Piece

_ESCAPE = "%[0-9A-Fa-f]{2}"
_VARCHARS = f"(?:[A-Za-z0-9_]|{_ESCAPE})+"
_NAME = re.compile(rf"{_VARCHARS}(?:\.{_VARCHARS})*")
_TOKEN = re.compile(r"\{(?P<expression>[^{}]*)\}|[^{}]+|[{}]")
_BAD_LITERAL = re.compile(rf"(?!{_ESCAPE})[\x00-\x20\"%<>\\^`|\x7f\ud800-\udfff]")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_ESCAPES = re.compile(f"(?:{_ESCAPE})++")
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_NOT_UNRESERVED = re.compile(f"[^{re.escape(UNRESERVED)}]+")
_NOT_RESERVED = re.compile(f"(?!{_ESCAPE})[^{re.escape(UNRESERVED + RESERVED)}]")
_SHOWN = 120  # characters of a template in an error


class _Operator(NamedTuple):
    """A column of the table in RFC 6570 appendix A; `least` characters make a value in a match (rule 4)."""

    first: str
    separator: str
    named: bool = False
    if_empty: str = ""
    chars: urimatch.Chars = SIMPLE
    least: int = 0


_OPERATORS = {
    "": _Operator("", ",", least=1),
    "+": _Operator("", ",", chars=ANY, least=1),
    "#": _Operator("#", ",", chars=ANY),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True, if_empty="="),
    "&": _Operator("&", "&", named=True, if_empty="="),
}


class _Expression(NamedTuple):
    operator: _Operator
    names: tuple[str, ...]


def is_template(text: str) -> bool:
    """Whether `text` is a template and not a plain URI.

    Any brace counts, also one without a counterpart, since no URI holds one: `UriTemplate` says what is
    wrong.
    """
    return "{" in text or "}" in text


class UriTemplate:
    """A URI template: RFC 6570 levels 1 to 3, and ``{/x*}``.

    `text` is the template as written, `names` are its variables in order of appearance, `exploded` are those
    matched as lists, `reserved` those of ``{+x}`` and ``{#x}``. Raises `ValueError`, naming template and
    position, for unbalanced braces, an empty expression, a bad variable name, an operator or modifier that is
    not supported, a variable used twice, and a character that has to be percent-encoded. An instance never
    changes and may be shared between threads.
    """

    text: str
    names: tuple[str, ...]
    exploded: frozenset[str]
    reserved: frozenset[str]

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts, self.exploded = _parse(text)
        expressions = [part for part in self._parts if isinstance(part, _Expression)]
        self.names = tuple(name for part in expressions for name in part.names)
        self.reserved = frozenset(
            name for part in expressions if part.operator.chars is ANY for name in part.names
        )
        # Literal start and end are compared alone: for most URIs of other templates that answers at once.
        pieces = _pieces(self._parts, self.exploded)
        self._start = _pop_literal(pieces, 0)
        self._end = _pop_literal(pieces, -1)
        self._pieces = tuple(pieces)

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values that expand to `uri`, percent-decoded, or None when there are none.

        A value is a string, or a list of strings for an exploded variable; absent query parameters are
        absent. A percent escape that is malformed or not UTF-8 does not match. Takes time linear in the
        length of `uri`.

        The values are the client's: ``%2F`` inside ``{x}`` is ``/`` here, and ``..`` or a NUL may come as
        well. Whoever opens files by a value has to check that the path stays in its folder, after decoding
        (RES-07).
        """
        body = self._body(uri)
        if body is None:
            return None
        found = urimatch.read(self._pieces, body)
        if found is None:
            return None
        try:
            return {name: self._decoded(name, found[name]) for name in self.names if name in found}
        except UnicodeDecodeError:
            return None

    def expand(self, values: Mapping[str, object]) -> str:
        """Return the URI for `values`, by name: str, int, float, bool, or a list (or tuple) of these.

        A variable that is missing, None or an empty list is undefined and leaves nothing behind (RFC 6570
        section 3.2.1); names that the template does not have are ignored. Booleans are ``true`` and
        ``false``. A list is joined with commas, in ``{/x*}`` with slashes. ``{+x}`` and ``{#x}`` keep
        reserved characters and percent escapes as they are (section 3.2.3), so that ``%2F`` comes back from
        `match` as ``/``. Raises `TypeError` for a value of another type, and `ValueError` for a string that
        has no UTF-8 form.
        """
        return "".join(
            part if isinstance(part, str) else self._expanded(part, values) for part in self._parts
        )

    def _expanded(self, part: _Expression, values: Mapping[str, object]) -> str:
        operator = part.operator
        encoder = _encode_reserved if operator.chars is ANY else encode
        written: list[str] = []
        for name in part.names:
            items = _items(name, values.get(name), encoder)
            if items and name in self.exploded:
                written += items
            elif items:
                written.append(_named(operator, name, ",".join(items)))
        return operator.first + operator.separator.join(written) if written else ""

    def _body(self, uri: str) -> str | None:
        """Return what stands between the literal start and end; None when `uri` cannot match."""
        if not uri.isascii():
            try:
                uri = _NON_ASCII.sub(_escape, uri)
            except UnicodeEncodeError:
                return None
        stop = len(uri) - len(self._end)
        if stop < len(self._start) or not uri.startswith(self._start) or not uri.endswith(self._end):
            return None
        body = uri[len(self._start) : stop]
        return None if _BAD_ESCAPE.search(body) else body

    def _decoded(self, name: str, raw: str) -> str | list[str]:
        if name in self.exploded:
            return [_decode(segment) for segment in raw.split("/")]
        return _decode(raw)


def _parse(text: str) -> tuple[tuple[str | _Expression, ...], frozenset[str]]:
    """Split a template into literals (as they stand in a URI) and expressions; and name the exploded ones."""
    parts: list[str | _Expression] = []
    seen: dict[str, bool] = {}
    for token in _TOKEN.finditer(text):
        body = token["expression"]
        if body is not None:
            parts.append(_parse_expression(text, token.start(), body, seen))
        elif token[0] in "{}":
            raise _error(text, token.start(), f"{token[0]!r} has no counterpart")
        else:
            parts.append(_parse_literal(text, token.start(), token[0]))
    return tuple(parts), frozenset(name for name, exploded in seen.items() if exploded)


def _parse_literal(text: str, at: int, literal: str) -> str:
    bad = _BAD_LITERAL.search(literal)
    if bad is not None:
        raise _error(text, at + bad.start(), f"a literal {bad[0]!r} has to be percent-encoded")
    return _NON_ASCII.sub(_escape, literal)


def _parse_expression(text: str, at: int, body: str, seen: dict[str, bool]) -> _Expression:
    if body[:1] in tuple("=,!@|"):
        raise _error(text, at + 1, f"operator {body[0]!r} is reserved by RFC 6570 and not supported")
    symbol = body[:1] if body[:1] in _OPERATORS else ""
    at += 1 + len(symbol)
    if body == symbol:
        raise _error(text, at, "the expression has no variable")
    names: list[str] = []
    for spec in body[len(symbol) :].split(","):
        name = _parse_name(text, at, spec, symbol)
        if name in seen:
            raise _error(text, at, f"variable {_shown(name)} is used twice; give each its own name")
        seen[name] = name != spec
        names.append(name)
        at += len(spec) + 1
    return _Expression(_OPERATORS[symbol], tuple(names))


def _parse_name(text: str, at: int, spec: str, symbol: str) -> str:
    name = spec.partition(":")[0].removesuffix("*")
    modifier = spec[len(name) :]
    if _NAME.fullmatch(name) is None:
        raise _error(
            text, at, f"{_shown(spec)} is not a name: ASCII letters, digits, '_', and '.' in between"
        )
    if modifier and (symbol, modifier) != ("/", "*"):
        raise _error(
            text, at + len(name), f"modifier {_shown(modifier)} is not supported; only {{/name*}} is"
        )
    return name


def _error(text: str, at: int, problem: str) -> ValueError:
    return ValueError(f"URI template {_shown(text)}, position {at}: {problem}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _pieces(parts: tuple[str | _Expression, ...], exploded: frozenset[str]) -> list[Piece]:
    """Return what has to be matched one after the other; no literal is empty or stands next to another."""
    pieces: list[Piece] = []
    for part in parts:
        for piece in [Literal(part)] if isinstance(part, str) else _expression_pieces(part, exploded):
            text = piece.text if isinstance(piece, Literal) else None
            if text is None:
                pieces.append(piece)
            elif text:
                pieces.append(Literal(_pop_literal(pieces, -1) + text))
    return pieces


def _expression_pieces(part: _Expression, exploded: frozenset[str]) -> list[Piece]:
    operator = part.operator
    if operator.if_empty:
        return [urimatch.Query(operator.first, part.names)]
    pieces: list[Piece] = []
    lead = operator.first
    for name in part.names:
        chars = SEGMENTS if name in exploded else operator.chars
        if operator.named:
            pieces += [Literal(lead + name), urimatch.PathParameter(name)]
        else:
            pieces += [Literal(lead), urimatch.Value(name, chars, operator.least)]
        lead = operator.separator
    return pieces


def _pop_literal(pieces: list[Piece], index: int) -> str:
    """Take the piece at `index` away if it is a literal and return its text."""
    piece = pieces[index] if pieces else None
    if not isinstance(piece, Literal):
        return ""
    del pieces[index]
    return piece.text


def _items(name: str, value: object, encode: Callable[[str], str]) -> list[str]:
    """Return the encoded items of a value, one for a scalar, none when it is undefined."""
    items: list[object] = list(value) if isinstance(value, (list, tuple)) else [value]
    try:
        return [encode(_string(name, item)) for item in items if item is not None]
    except UnicodeEncodeError:
        raise ValueError(
            f"URI template variable {name!r}: the value holds a lone surrogate, not text"
        ) from None


def _string(name: str, value: object) -> str:
    # Called on the bases, because an enum member with a mixed-in type stands for its value.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    raise TypeError(
        f"URI template variable {name!r}: {type(value).__name__} has no form in a URI; "
        "pass str, int, float, bool, or a list of these"
    )


def _named(operator: _Operator, name: str, value: str) -> str:
    if not operator.named:
        return value
    return f"{name}={value}" if value else name + operator.if_empty


def _escape(run: re.Match[str]) -> str:
    return "%" + run[0].encode().hex("%").upper()


def encode(text: str) -> str:
    """`text` with all but the unreserved characters percent-encoded. Raises `UnicodeEncodeError` for what is no
    text: lone surrogates.
    """
    return _NOT_UNRESERVED.sub(_escape, text)


def _encode_reserved(text: str) -> str:
    return _NOT_RESERVED.sub(_escape, text)


def _decode(text: str) -> str:
    """Undo percent-encoding; raises `UnicodeDecodeError` where the bytes are not UTF-8."""
    return _ESCAPES.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(), text)
