"""The location of Kafka's own Connect."""

from bench.peers.kafka_connect import KafkaConnect

__all__ = ["KafkaConnect"]
