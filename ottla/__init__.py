"""Kafka for Python people: a broker that speaks Kafka's wire protocol."""

__version__ = "0.1.0"

# The release of Kafka whose tools and REST API these are. Clients compare it to know what they may ask for.
KAFKA_VERSION = "4.3.0"
