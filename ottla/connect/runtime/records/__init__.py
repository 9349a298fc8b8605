"""The path of records between a task and Kafka: transforms, converters, topic creation and transactions."""
