"""The transports: carry bytes between a client and the engine."""
