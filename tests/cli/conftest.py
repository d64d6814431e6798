"""Fixtures of the command line's tests."""

from desks import desk

__all__ = ["desk"]
