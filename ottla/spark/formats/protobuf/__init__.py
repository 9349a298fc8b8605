"""Protobuf: messages as columns."""
