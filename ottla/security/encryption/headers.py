"""Record headers as used by Python clients: lists of pairs, None, or a dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.security.encryption.key_provider import BadValue

#: Header of a record with an encrypted value.
HEADER = "ottla.encryption"

_Given = bytes | str | None
GivenHeaders = Mapping[str, _Given] | Iterable[tuple[str, _Given]] | None
Headers = list[tuple[str, bytes | None]]


def _pairs(headers: GivenHeaders) -> Headers:
    given = headers.items() if isinstance(headers, Mapping) else headers or ()
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in given]


def split(headers: GivenHeaders) -> tuple[bytes | None, Headers]:
    everything = _pairs(headers)
    own = [value for name, value in everything if name == HEADER]
    others = [pair for pair in everything if pair[0] != HEADER]
    if not own:
        return None, others
    if len(own) > 1:
        raise BadValue(f"The record has the header {HEADER} {len(own)} times.")
    [value] = own
    return value or b"", others
