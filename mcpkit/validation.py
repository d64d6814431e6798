"""Hand-written JSON Schemas: checked with the `jsonschema` package, which is imported only when there is one.

Nothing is ever fetched: a `$ref` to another document fails when the schema is registered or used (SCH-02).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


def checker(schema: dict[str, Any]) -> Callable[[bytes], Any]:
    """A function that decodes JSON and checks it: it returns the value, and raises ValueError with one line
    that names the place.

    Raises TypeError when the schema itself is wrong, or when `jsonschema` is not installed.
    """
    try:
        import jsonschema.exceptions  # heavy, and seldom needed
        import jsonschema.validators
        import referencing.exceptions
    except ImportError:
        raise TypeError(
            "a hand-written schema needs the jsonschema package: pip install 'mcpkit[jsonschema]'"
        ) from None
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    _check_dialect(schema, kind)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise TypeError(f"the schema is not valid: {error.message}") from None
    validator = kind(schema, registry=referencing.Registry())

    def check(encoded: bytes) -> Any:
        value = msgspec.json.decode(encoded)
        try:
            problem = jsonschema.exceptions.best_match(validator.iter_errors(value))
        except referencing.exceptions.Unresolvable as error:
            raise ValueError(f"the schema refers to {error.ref!r}, which is not part of it") from None
        if problem is not None:
            raise ValueError(_describe(problem))
        return value

    return check


def _check_dialect(schema: dict[str, Any], kind: Any) -> None:
    dialect = schema.get("$schema")
    if dialect is not None and kind.META_SCHEMA.get("$schema", "").rstrip("#") != str(dialect).rstrip("#"):
        raise TypeError(f"the dialect {dialect!r} is not supported: use JSON Schema 2020-12")


def _describe(problem: Any) -> str:
    """The place and the rule, not the value."""
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.absolute_path
    ).lstrip(".")
    rule = f"{problem.validator} {problem.validator_value!r}"
    return f"`{place}`: breaks {rule}" if place else f"breaks {rule}"
