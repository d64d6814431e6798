"""The engine: drives a connection on trio."""
