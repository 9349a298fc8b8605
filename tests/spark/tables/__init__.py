"""Topics as Iceberg and Delta tables."""
