"""Moving replicas between brokers."""
