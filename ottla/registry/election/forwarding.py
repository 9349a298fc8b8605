"""Forward requests to the leader of the registry."""

from __future__ import annotations

import ssl

from ottla.http.forwarding import Forwarder

#: Marks forwarded requests, which are not forwarded again.
FORWARDED = "x-forward"
#: The leader's log position, so that this node can wait until it has read the same records.
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
