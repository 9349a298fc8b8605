"""Who a client is, as quotas and ACLs know it."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class KafkaPrincipal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        """As ACLs and tools write it: `User:alice`."""
        return f"{self.type}:{self.name}"


# A client on a listener that does not ask who it is.
ANONYMOUS = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
