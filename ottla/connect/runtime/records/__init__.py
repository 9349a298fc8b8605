"""The way of records between a task and Kafka: transforms and converters, topics that are created, transactions."""
