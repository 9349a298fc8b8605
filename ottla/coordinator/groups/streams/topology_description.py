"""The description of a streams topology that a member sends on request (KIP-1331). Pure.

The description is for people and tools: processors, stores and topics of each subtopology. The coordinator keeps it in
memory, so after a failover it asks a member again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

_FIRST_PAUSE_MS = 30_000
_LONGEST_PAUSE_MS = 3_600_000
_JITTER = 0.2


@dataclass(slots=True)
class DescriptionKeeper:
    """The latest description of one group, and the time of the next request for one."""

    stored_epoch: int = -1
    description: Any = None
    _asked_epoch: int = -1
    _attempts: int = 0
    _not_before_ms: int = 0

    def of(self, topology_epoch: int) -> Any:
        """Return the description of this epoch, or None."""
        return self.description if self.stored_epoch == topology_epoch else None

    def store(self, topology_epoch: int, description: Any) -> None:
        self.stored_epoch, self.description = topology_epoch, description
        self._attempts = 0

    def asks(self, topology_epoch: int, now_ms: int) -> bool:
        """Return True if the member that sent a heartbeat should send its description. The next waits for longer."""
        if self.stored_epoch == topology_epoch:
            return False
        if self._asked_epoch != topology_epoch:
            self._asked_epoch, self._attempts, self._not_before_ms = topology_epoch, 0, 0
        if now_ms < self._not_before_ms:
            return False
        pause = min(_FIRST_PAUSE_MS << self._attempts, _LONGEST_PAUSE_MS)
        self._not_before_ms = now_ms + int(pause * random.uniform(1 - _JITTER, 1 + _JITTER))
        self._attempts = min(self._attempts + 1, 10)
        return True
