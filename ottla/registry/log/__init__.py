"""The topic `_schemas`: requirements, reading and writing. The only blocking part of the registry."""
