"""The `ottla` command."""
