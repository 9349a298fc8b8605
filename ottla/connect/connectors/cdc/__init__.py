"""Change data capture: row changes published in the format of Debezium's connectors."""
