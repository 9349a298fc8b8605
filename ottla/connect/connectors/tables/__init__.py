"""Topics as tables of a lake: Delta and Iceberg, by appending or by key, from plain topics and from changes."""
