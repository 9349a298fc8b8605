"""SASL: choosing a mechanism and authenticating."""

from __future__ import annotations

from ottla.protocol.codec import Request, Response, array, binary, int16, int64, string

# SaslHandshake, key 17


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)


# SaslAuthenticate, key 36


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary()

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest(auth_bytes=…)"  # it may be a password


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+")
