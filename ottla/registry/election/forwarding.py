"""Passing a request on to the leader of the registry."""

from __future__ import annotations

import ssl

from ottla.http.forwarding import Forwarder

#: Marks a request that has been passed on: it is not passed on again.
FORWARDED = "x-forward"
#: The offset up to which the leader has read the log, so that what it has done can be read on this node as well.
READ_UNTIL = "x-read-until"
MARKS = {"X-Forward": "true"}
_PASSED_ON = (
    "accept",
    "authorization",
    "content-type",
    "confluent-accept-unknown-properties",
    "confluent-client-version",
    "x-confluent-client-id",
)


def leader_forwarder(tls: ssl.SSLContext | None, timeout: float) -> Forwarder:
    return Forwarder(tls, timeout, headers=_PASSED_ON, kept=(READ_UNTIL,))
