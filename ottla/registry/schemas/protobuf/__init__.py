"""Protobuf: proto2 and proto3, as text and as descriptors."""

from ottla.registry.schemas.protobuf.schema import ProtobufSchema, parse_protobuf

__all__ = ["ProtobufSchema", "parse_protobuf"]
