"""OpenTelemetry's MetricsData as pushed by clients, equal to the body of an export request.

This module parses only the outermost fields and adds attributes that identify the client to each resource. Protocol
Buffers merges repeated fields, so the attributes are appended without decoding anything.
"""

from __future__ import annotations

from collections.abc import Mapping

_RESOURCE_METRICS = 0x0A  # MetricsData: field 1, length-delimited
_RESOURCE = 0x0A  # ResourceMetrics: the same
_ATTRIBUTES = 0x0A  # Resource: the same
_KEY, _VALUE, _STRING = 0x0A, 0x12, 0x0A  # KeyValue and AnyValue


class MalformedMetrics(ValueError):
    """Raised for bytes that are not MetricsData."""


def with_attributes(data: bytes, attributes: Mapping[str, str]) -> bytes:
    entries = b"".join(
        _field(
            _ATTRIBUTES,
            _field(_KEY, name.encode()) + _field(_VALUE, _field(_STRING, value.encode())),
        )
        for name, value in attributes.items()
    )
    resource = _field(_RESOURCE, entries)
    parts = []
    position = 0
    while position < len(data):
        if data[position] != _RESOURCE_METRICS:
            raise MalformedMetrics(f"an unknown field at byte {position}")
        size, position = _varint(data, position + 1)
        end = position + size
        if end > len(data):
            raise MalformedMetrics("they end too early")
        parts.append(_field(_RESOURCE_METRICS, data[position:end] + resource))
        position = end
    return b"".join(parts)


def _field(tag: int, content: bytes) -> bytes:
    size, encoded = len(content), bytearray([tag])
    while size > 127:
        encoded.append(size & 127 | 128)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + content


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise MalformedMetrics("a length does not end")
