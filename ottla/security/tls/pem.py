"""PEM: keys and certificates as text. Line breaks do not matter, because a setting may have everything on one line."""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_HEADER = re.compile(r"^[A-Za-z-]+:", re.MULTILINE)

CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")
_LINE = 64


class BadPem(ValueError):
    pass


class Block(NamedTuple):
    kind: str
    text: str  # well-formed PEM

    @property
    def is_key(self) -> bool:
        return self.kind.endswith("PRIVATE KEY")

    @property
    def is_certificate(self) -> bool:
        return self.kind in CERTIFICATES

    def __repr__(self) -> str:
        return f"Block({self.kind!r})"


def blocks(text: str) -> list[Block]:
    """Return all blocks. Text between them is ignored."""
    return [Block(kind, _well_formed(kind, body)) for kind, body in _BLOCK.findall(text)]


def _well_formed(kind: str, body: str) -> str:
    if _HEADER.search(body):  # keys encrypted in OpenSSL's old format have headers
        return f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"
    packed = "".join(body.split())
    try:
        base64.b64decode(packed, validate=True)
    except binascii.Error:
        raise BadPem(f"the text between BEGIN {kind} and END {kind} is not base64") from None
    lines = "\n".join(packed[at : at + _LINE] for at in range(0, len(packed), _LINE))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
