"""`Principal`, which is declared in the model, since handlers get it."""

from mcpkit.principal import Principal

__all__ = ["Principal"]
