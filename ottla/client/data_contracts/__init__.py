"""Rules that a schema has for those who write and read with it."""
