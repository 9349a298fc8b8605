"""Route traffic between brokers, and to ZooKeeper, through relays by means of server.properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.testing.network import Network
from ottla.testing.zookeeper import ZooKeeper

ZOOKEEPER: Final = "zookeeper"  # the other end of a cut, instead of brokers

_HOST = "127.0.0.1"


def lay_network(
    network: Network,
    clients: Mapping[int, int],
    free: Iterable[int],
    zookeeper: ZooKeeper,
    protocol: str = "PLAINTEXT",
) -> dict[int, dict[str, str]]:
    """Return the settings of each broker. `clients` has the client ports, `free` ports for inter-broker traffic.

    Each broker has one listener per other broker, so that a relay knows the caller: broker 1 connects to the others'
    listeners named FROM_1, which advertise a relay.
    """
    brokers = list(clients)
    pairs = [(caller, called) for called in brokers for caller in brokers]
    bound = dict(zip(pairs, free, strict=True))
    advertised = {
        (caller, called): port if caller == called else network.link(caller, called, _HOST, port)
        for (caller, called), port in bound.items()
    }
    names = [protocol, *(f"FROM_{caller}" for caller in brokers)]

    def listeners(called: int, ports: Mapping[tuple[int, int], int]) -> str:
        numbers = [clients[called], *(ports[caller, called] for caller in brokers)]
        return ",".join(f"{name}://{_HOST}:{port}" for name, port in zip(names, numbers, strict=True))

    def ensemble(caller: int) -> str:
        servers = zookeeper.servers.values()
        relays = (f"{_HOST}:{network.link(caller, ZOOKEEPER, each.host, each.port)}" for each in servers)
        return ",".join(relays) + zookeeper.path

    return {
        broker: {
            "listeners": listeners(broker, bound),
            "advertised.listeners": listeners(broker, advertised),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name in names),
            "inter.broker.listener.name": f"FROM_{broker}",
            "zookeeper.connect": ensemble(broker),
        }
        for broker in brokers
    }
