"""The schema registry: Confluent's API on a topic `_schemas` in Confluent's format. A client of the broker."""
