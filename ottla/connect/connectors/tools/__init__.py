"""Kafka's connectors for tests of Connect itself (`org.apache.kafka.connect.tools`)."""
