"""The share consumer that the cases use."""

from __future__ import annotations

from collections.abc import Mapping

from .client import AgentClient
from .records import Record


class ShareConsumer:
    """A share consumer that lives in the client's agent between calls."""

    def __init__(self, client: AgentClient, group: str, topic: str, *, explicit: bool = False) -> None:
        self._client = client
        self._topic = topic
        self._handle: int = client.call("share_open", group=group, topic=topic, explicit=explicit)

    def poll(self, timeout: float | None = None) -> list[Record]:
        """Poll until records arrive, and return them."""
        timeout = self._client.patience if timeout is None else timeout
        answer = self._client.call("share_poll", handle=self._handle, timeout=timeout)
        return [Record.from_json(record) for record in answer]

    def acknowledge(self, fates: Mapping[int, str]) -> None:
        """Accept, release or reject offsets of partition 0 and commit immediately."""
        self._client.call(
            "share_acknowledge", handle=self._handle, topic=self._topic, fates=list(fates.items())
        )

    def close(self) -> None:
        self._client.call("share_close", handle=self._handle)
