"""The client's side of SASL: PLAIN and SCRAM, as generators that yield what to send and receive the answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

from ottla.client.errors import ClientError, Unsupported
from ottla.protocol.errors import ErrorCode

Exchange = Generator[bytes, bytes, None]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def exchange(mechanism: str, username: str, password: str) -> Exchange:
    if mechanism == "PLAIN":
        return _plain(username, password)
    if mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        return _scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), username, password)
    raise Unsupported(
        f"The SASL mechanism {mechanism} is not supported here: use PLAIN or SCRAM.",
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    )


def _plain(username: str, password: str) -> Exchange:
    yield f"\0{username}\0{password}".encode()


def _scram(digest: str, username: str, password: str) -> Exchange:
    """RFC 5802, without channel binding."""
    nonce = secrets.token_urlsafe(24)
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    challenge = (yield b"n,," + first.encode()).decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    if not fields["r"].startswith(nonce):
        raise ClientError(
            "The broker answered with a nonce that is not ours.", ErrorCode.SASL_AUTHENTICATION_FAILED
        )
    salted = hashlib.pbkdf2_hmac(
        digest, password.encode(), base64.b64decode(fields["s"]), max(int(fields["i"]), 1)
    )
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={fields['r']}"
    message = f"{first},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = base64.b64encode(hmac.digest(server_key, message, digest))
    if not hmac.compare_digest(final.partition(b"v=")[2], expected):
        raise ClientError(
            "The broker could not prove that it knows the password.", ErrorCode.SASL_AUTHENTICATION_FAILED
        )
