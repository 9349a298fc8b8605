"""Change data capture: the changes of a database's tables as Debezium's connectors publish them."""
