"""Confluent's Datagen: made-up records, by a schema in Avro's notation that says how they are made up."""
