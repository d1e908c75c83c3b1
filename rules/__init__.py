"""The built-in rule pack: one leak pattern, one file."""
