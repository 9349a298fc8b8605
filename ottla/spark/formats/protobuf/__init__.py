"""Protobuf messages as columns."""
