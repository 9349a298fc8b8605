"""Kafka's own Connect, where tests look for it."""

from bench.peers.kafka_connect import KafkaConnect

__all__ = ["KafkaConnect"]
