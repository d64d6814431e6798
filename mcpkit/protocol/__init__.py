"""The protocol, pure: bytes to events and back."""
