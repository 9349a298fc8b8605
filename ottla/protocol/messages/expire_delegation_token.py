"""ExpireDelegationToken, key 40."""

from __future__ import annotations

from ottla.protocol.codec import (
    Request,
    Response,
    binary,
    int16,
    int32,
    int64,
)


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
