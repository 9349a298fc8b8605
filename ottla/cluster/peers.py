"""The other brokers: their inter-broker addresses, and connections to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.cluster.peer import PLAINTEXT, PeerConnection, PeerError, PeerSecurity
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.protocol.codec import Request

_CONNECT_SECONDS = 10.0


class PeerAddress(NamedTuple):
    broker_id: int
    epoch: int  # epoch of the registration, which a restart changes
    host: str
    port: int


class PeerDialer:
    """Creates all connections from this broker to others. Owner: the event loop."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, security: PeerSecurity = PLAINTEXT) -> None:
        self._client_id = f"broker-{config.broker_id}"
        self._listener = config.inter_broker_listener_name
        self._image = image
        self._security = security

    def address(self, broker_id: int) -> PeerAddress | None:
        """Return a broker's inter-broker address, or None if it is not registered or lacks such a listener."""
        broker = self._image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        if broker is None or endpoint is None:
            return None
        return PeerAddress(broker_id, broker.epoch, endpoint.host, endpoint.port)

    def addresses(self, brokers: Iterable[int] | None = None) -> dict[int, PeerAddress]:
        """Return the known addresses of these brokers; by default of all registered brokers, including this one."""
        found = map(self.address, self._image.brokers if brokers is None else brokers)
        return {address.broker_id: address for address in found if address is not None}

    def connection(
        self, address: PeerAddress, purpose: str = "", connect_timeout: float = _CONNECT_SECONDS
    ) -> PeerConnection:
        """Return an unopened connection. `purpose` becomes part of the client id."""
        client_id = f"{self._client_id}-{purpose}" if purpose else self._client_id
        return PeerConnection(
            address.host,
            address.port,
            client_id,
            connect_timeout=connect_timeout,
            security=self._security,
            broker_id=address.broker_id,
        )

    def connection_to(self, broker_id: int, purpose: str = "") -> PeerConnection:
        return self.connection(self.registered(broker_id), purpose)

    def registered(self, broker_id: int) -> PeerAddress:
        address = self.address(broker_id)
        if address is None:
            raise PeerError(f"broker {broker_id} is not registered")
        return address


class Peers:
    """Connections for occasional requests: one per broker, opened on first use.

    Owner: the event loop.
    """

    def __init__(self, dialer: PeerDialer, timeout: float) -> None:
        self._dialer = dialer
        self._timeout = timeout
        self._connections: dict[int, PeerConnection] = {}

    async def request(self, broker_id: int, message: Request, version: int) -> Any:
        """Send a request to a broker and return its response. Raises OSError if it is unavailable."""
        address = self._dialer.registered(broker_id)
        peer = self._connections.get(broker_id)
        if peer is None or (peer.host, peer.port) != (address.host, address.port) or peer.is_lost:
            if peer is not None:
                peer.close()
            peer = self._connections[broker_id] = self._dialer.connection(address)
        try:
            async with asyncio.timeout(self._timeout):
                return await peer.request(message, version)
        except TimeoutError:
            peer.close()  # the outcome is unknown, and a later response would be too late
            raise PeerError(f"broker {broker_id} has not answered for {self._timeout:.0f} s") from None

    def close(self) -> None:
        for peer in self._connections.values():
            peer.close()
        self._connections.clear()
