"""UnregisterBroker, key 64. Brokers of Ottla have no such API; `kafka-cluster` sends it to others."""

from __future__ import annotations

from ottla.protocol.codec import Request, Response, int16, int32, string


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    broker_id: int = int32()


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
