"""State that several processes may share."""
