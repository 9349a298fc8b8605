"""The other brokers, for the occasional request: one connection to each, made when it is first needed."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.cluster.peer import PeerConnection, PeerError
from ottla.metadata.cluster_image import ClusterImage
from ottla.protocol.codec import Request


class Peers:
    """Owner: the event loop."""

    def __init__(self, broker_id: int, listener: str, image: ClusterImage, timeout: float) -> None:
        self._client_id = f"broker-{broker_id}"
        self._listener = listener
        self._image = image
        self._timeout = timeout
        self._connections: dict[int, PeerConnection] = {}

    async def request(self, broker_id: int, message: Request, version: int) -> Any:
        """The response of that broker. OSError if it cannot be had now."""
        broker = self._image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        if endpoint is None:
            raise PeerError(f"broker {broker_id} is not registered")
        peer = self._connections.get(broker_id)
        if peer is None or (peer.host, peer.port) != (endpoint.host, endpoint.port) or peer.is_lost:
            if peer is not None:
                peer.close()
            peer = self._connections[broker_id] = PeerConnection(
                endpoint.host, endpoint.port, self._client_id
            )
        try:
            async with asyncio.timeout(self._timeout):
                return await peer.request(message, version)
        except TimeoutError:
            peer.close()  # what was asked is not known to have happened, and an answer would come too late
            raise PeerError(f"broker {broker_id} has not answered for {self._timeout:.0f} s") from None

    def close(self) -> None:
        for peer in self._connections.values():
            peer.close()
        self._connections.clear()
