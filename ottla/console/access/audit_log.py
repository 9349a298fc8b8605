"""Who changed what, from where, and what came of it: one line of JSON each, in a file, and the last ones in memory."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("ottla.console.audit")

_KEPT = 500


class AuditLog:
    """Owner: the event loop. A change is logged after it was tried; a file that cannot be written is a warning."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._last: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._writing = asyncio.Lock()

    async def write(
        self,
        *,
        user: str,
        address: str,
        cluster: str,
        action: str,
        target: str,
        outcome: str,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "user": user,
            "address": address,
            "cluster": cluster,
            "action": action,
            "target": target,
            "outcome": outcome,
            "details": dict(details or {}),
        }
        self._last.append(entry)
        logger.info("%s: %s %s on %s by %s from %s", outcome, action, target, cluster, user, address)
        if self._file is None:
            return
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        async with self._writing:
            try:
                await asyncio.to_thread(_append, self._file, line)
            except OSError as error:
                logger.warning("The audit log %s cannot be written: %s", self._file, error.strerror)

    def last(self) -> list[dict[str, Any]]:
        """The newest first."""
        return list(reversed(self._last))


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(line)
