"""Messages from MQTT brokers and to them, by the settings of Confluent's connectors."""
