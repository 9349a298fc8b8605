"""The schema registry: Confluent's API over a topic `_schemas` in Confluent's format. A client of the broker."""
