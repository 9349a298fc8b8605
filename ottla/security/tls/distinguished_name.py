"""Format a certificate's subject like Java (RFC 2253), since rules and ACLs expect that form.

The last part of the name comes first. Only the nine keywords of the RFC are used. Any other attribute is its object
identifier and the hexadecimal digits of its encoded value: `1.2.840.113549.1.9.1=#1603…`.
"""

from __future__ import annotations

from ottla.security.tls.jks import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    BadDer,
    Element,
    element,
    object_identifier,
)

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# Text encodings by tag.
_ENCODINGS = {
    0x0C: "utf-8",  # UTF8String
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
_ESCAPED = frozenset(',=+<>#;"\\')


def distinguished_name(encoded: bytes) -> str:
    """Format a name given in DER. Raises BadDer."""
    parts = [
        "+".join(_attribute(attribute) for attribute in part.expect(SET).children())
        for part in element(encoded).expect(SEQUENCE).children()
    ]
    return ",".join(reversed(parts))


def _attribute(attribute: Element) -> str:
    try:
        kind, value = attribute.expect(SEQUENCE).children()
    except ValueError as error:
        raise BadDer("an attribute of a name has no value") from error
    identifier = object_identifier(kind.expect(OBJECT_IDENTIFIER).content)
    keyword = _KEYWORDS.get(identifier)
    encoding = _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or identifier}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text.rstrip(" "))
    return "".join(
        "\\" + character
        if character in _ESCAPED or (character == " " and not leading <= position < trailing)
        else "\\00"
        if character == "\0"
        else character
        for position, character in enumerate(text)
    )
