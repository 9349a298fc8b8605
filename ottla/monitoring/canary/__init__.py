"""Writes and reads through every broker of any Kafka cluster, and says what was lost and how long it took."""
