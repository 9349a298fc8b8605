"""Client side of DIGEST-MD5 (RFC 2831), as used by ZooKeeper. Brokers do not offer it.

The mechanism is weak: an attacker who records a login can try passwords offline. Use it over TLS.
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import md5

from ottla.security.sasl.plain import AuthenticationFailed, ClientExchange

MECHANISM = "DIGEST-MD5"
ZOOKEEPER = "zookeeper/zk-sasl-md5"  # the same for every ZooKeeper server, whatever its host name

_FIRST_COUNT = "00000001"
_QUALITY = "auth"
_DIRECTIVE = re.compile(r'\s*([a-zA-Z-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s",]*))\s*(?:,|$)', re.DOTALL)
_MAX_CHALLENGE_BYTES = 2048  # RFC 2831, 2.1.1


def log_in(username: str, password: str, uri: str = ZOOKEEPER) -> ClientExchange:
    """Run one login: request a challenge, answer it, and verify that the server knows the password, too."""
    asked = _directives((yield b""))
    nonce, realm = asked.get("nonce"), asked.get("realm", "")
    if not nonce:
        raise AuthenticationFailed("the server's challenge has no nonce")
    if asked.get("algorithm") != "md5-sess":
        raise AuthenticationFailed("the server's challenge names no algorithm that is known")
    if _QUALITY not in asked.get("qop", _QUALITY).replace(" ", "").split(","):
        raise AuthenticationFailed("the server asks for a layer of security that is not known")
    own_nonce = secrets.token_hex(16)
    secret = _md5(b":".join(map(_latin_or_utf8, (username, realm, password))))
    session = _hex(secret + f":{nonce}:{own_nonce}".encode())
    exchange = f"{nonce}:{_FIRST_COUNT}:{own_nonce}:{_QUALITY}"

    def proof(of: str) -> str:
        return _hex(f"{session}:{exchange}:{_hex(f'{of}:{uri}'.encode())}".encode())

    fields = [
        "charset=utf-8",
        f"username={_quoted(username)}",
        f"realm={_quoted(realm)}",
        f"nonce={_quoted(nonce)}",
        f"cnonce={_quoted(own_nonce)}",
        f"nc={_FIRST_COUNT}",
        f"qop={_QUALITY}",
        f"digest-uri={_quoted(uri)}",
        f"response={proof('AUTHENTICATE')}",
    ]
    answered = _directives((yield ",".join(fields).encode()))
    if not hmac.compare_digest(answered.get("rspauth", "").encode(), proof("").encode()):
        raise AuthenticationFailed("the server does not know the password")


def _directives(challenge: bytes) -> dict[str, str]:
    if not challenge or len(challenge) > _MAX_CHALLENGE_BYTES:
        raise AuthenticationFailed("the server does not offer to log in")
    try:
        text = challenge.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the server's challenge cannot be read") from None
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        directive = _DIRECTIVE.match(text, position)
        if directive is None or directive.end() == position or directive[1].lower() in found:
            raise AuthenticationFailed("the server's challenge cannot be read")
        quoted, plain = directive[2], directive[3]
        found[directive[1].lower()] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = directive.end()
    return found


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _latin_or_utf8(text: str) -> bytes:
    """Encode for hashing: ISO 8859-1 if possible, although messages use UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    # The mechanism requires MD5, even on machines that disable it.
    return md5(data, usedforsecurity=False).digest()


def _hex(data: bytes) -> str:
    return _md5(data).hex()
