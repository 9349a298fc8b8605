"""Ottla beside Apache Kafka and beside what the machine allows. Run it with ``python -m bench``."""
