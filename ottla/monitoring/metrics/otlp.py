"""Convert Prometheus text to OpenTelemetry's ExportMetricsServiceRequest, in Protocol Buffers.

The message is small and fixed, so it is encoded by hand: `opentelemetry/proto/metrics/v1/metrics.proto` has the field
numbers. Metric and label names stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct

_DOUBLE, _FIXED64, _SFIXED64 = Struct("<d"), Struct("<Q"), Struct("<q")
_CUMULATIVE = 2
_LARGEST_INT = 1 << 63

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}

Labels = tuple[tuple[str, str], ...]


@dataclass
class Family:
    """One metric; each sample with its labels."""

    name: str
    kind: str = "untyped"
    about: str = ""
    samples: list[tuple[str, Labels, str]] = field(default_factory=list)


def parse(text: str) -> Iterator[Family]:
    """Yield the metrics of a Prometheus text, in order."""
    families: dict[str, Family] = {}

    def family(name: str) -> Family:
        return families.setdefault(name, Family(name))

    for line in text.splitlines():
        if line.startswith("# "):
            _, kind, name, rest = (*line.split(" ", 3), "", "")[:4]
            if kind == "HELP":
                family(name).about = rest.replace("\\n", "\n").replace("\\\\", "\\")
            elif kind == "TYPE":
                family(name).kind = rest
        elif found := _SAMPLE.match(line):
            name, inner, value = found[1], found[2] or "", found[3]
            labels = tuple((each[1], _unescaped(each[2])) for each in _LABEL.finditer(inner))
            base = name.removesuffix("_count").removesuffix("_sum")
            owner = base if base in families and families[base].kind == "summary" else name
            family(owner).samples.append((name, labels, value))
    yield from families.values()


def _unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), text) if "\\" in text else text


def export_request(text: str, resource: Mapping[str, str], *, time_ns: int, start_ns: int) -> bytes:
    """`resource` identifies the source of the metrics; counters start at `start_ns`."""
    metrics = b"".join(
        _message(2, _metric(each, _times(start_ns, time_ns), _time(time_ns)))
        for each in parse(text)
        if each.samples
    )
    scope = _message(1, _text(1, "ottla"))
    of_resource = _message(1, b"".join(_attribute(1, *each) for each in resource.items()))
    return _message(1, of_resource + _message(2, scope + metrics))


def _metric(family: Family, since: bytes, now: bytes) -> bytes:
    head = _text(1, family.name) + _text(2, family.about)
    if family.kind == "summary":
        return head + _message(11, b"".join(_message(1, each) for each in _summaries(family, since)))
    is_sum = family.kind == "counter"
    times = since if is_sum else now
    points = b"".join(
        _message(1, times + _number(value) + _attributes(labels)) for _, labels, value in family.samples
    )
    if is_sum:
        return head + _message(7, points + _varint_field(2, _CUMULATIVE) + _varint_field(3, 1))
    return head + _message(5, points)


def _summaries(family: Family, since: bytes) -> Iterator[bytes]:
    points: dict[Labels, list[bytes]] = {}
    for name, labels, value in family.samples:
        rest = tuple(each for each in labels if each[0] != "quantile")
        parts = points.setdefault(rest, [since])
        if name == family.name:
            quantile = float(dict(labels).get("quantile", "0"))
            parts.append(_message(6, _double(1, quantile) + _double(2, float(value))))
        elif name.endswith("_count"):
            parts.append(b"\x21" + _FIXED64.pack(int(float(value))))
        else:
            parts.append(_double(5, float(value)))
    for labels, parts in points.items():
        yield b"".join(parts) + _attributes(labels)


def _time(at_ns: int) -> bytes:
    return b"\x19" + _FIXED64.pack(at_ns)


def _times(start_ns: int, at_ns: int) -> bytes:
    return b"\x11" + _FIXED64.pack(start_ns) + _time(at_ns)


def _number(text: str) -> bytes:
    if text.lstrip("-").isdecimal() and -_LARGEST_INT <= int(text) < _LARGEST_INT:
        return b"\x31" + _SFIXED64.pack(int(text))
    return _double(4, float(text))


def _attributes(labels: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(_attribute(7, *each) for each in labels)


def _attribute(number: int, name: str, value: str) -> bytes:
    return _message(number, _text(1, name) + _message(2, _text(1, value)))


def _double(number: int, value: float) -> bytes:
    return bytes([number << 3 | 1]) + _DOUBLE.pack(value)


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint_field(number: int, value: int) -> bytes:
    return bytes([number << 3]) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
