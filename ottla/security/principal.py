"""The identity of a client for quotas and ACLs."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class KafkaPrincipal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        """Format as in ACLs and tools: `User:alice`."""
        return f"{self.type}:{self.name}"


# A client on a listener without authentication.
ANONYMOUS = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
