"""MQTT source and sink, with the settings of Confluent's connectors."""
