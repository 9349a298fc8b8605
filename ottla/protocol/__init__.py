"""Encoding and decoding of Kafka's messages and records. Pure: no sockets, no files, no clock."""
