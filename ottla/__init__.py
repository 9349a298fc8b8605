"""Kafka for Python people: a broker that speaks Kafka's wire protocol."""

__version__ = "0.1.0"

# Kafka release whose tools and REST API Ottla implements. Clients compare it to detect features.
KAFKA_VERSION = "4.3.0"
