"""Limits on the number, origin and rate of connections (max.connections and related settings).

As in Kafka, connections beyond the per-address limit are closed immediately. At the limits of a listener or of the
broker, new connections wait to be accepted, except those of the inter-broker listener if it is not the only one.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable

from ottla.broker.quotas import Rate
from ottla.log.files import descriptors
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.listeners import own_listener_value

logger = logging.getLogger(__name__)

_PER_IP = "max.connections.per.ip"
_OVERRIDES = "max.connections.per.ip.overrides"
_FORGET_ABOVE = 1000

# Maximum connections per second from an address, None if unlimited.
IpRate = Callable[[str], float | None]


class ConnectionLimits:
    """Counts the connections of a broker. Settings are read on every use, so changes take effect immediately.

    Invariant: only open connections are counted. Owner: the event loop.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        # As in Kafka, brokers reach each other even if clients have taken all connections.
        name = config.inter_broker_listener_name
        self._protected = name if len(config.listeners) > 1 else None
        self._descriptors = descriptors.for_connections()  # the remaining descriptors serve these connections
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_ip: Counter[str] = Counter()
        self._overrides_text = ""
        self._overrides: dict[str, int] = {}
        self._rates: dict[str, Rate] = {}
        self._ip_rates: dict[str, Rate] = {}
        self._waiting: list[Callable[[], None]] = []
        self.ip_rate: IpRate | None = None
        self._read_overrides()

    # Limits that delay new connections

    def has_room(self, listener: str) -> bool:
        most = self._descriptors
        if listener != self._protected:
            most = min(self._config.get_int("max.connections"), most)
        return self._total < most and self._by_listener[listener] < self._limit_of_listener(
            "max.connections", listener
        )

    def when_room(self, call: Callable[[], None]) -> None:
        """Call back after the next connection closes."""
        self._waiting.append(call)

    def pause(self, listener: str, now: float) -> float:
        """Count a new connection. Return the seconds for which the listener should accept no other."""
        pause = 0.0
        for name, limit in (
            ("", self._config.get_int("max.connection.creation.rate")),
            (listener, self._limit_of_listener("max.connection.creation.rate", listener)),
        ):
            if limit < 2**31 - 1:
                rate = self._rates.get(name) or self._rates.setdefault(name, self._new_rate())
                rate.record(1, now)
                pause = max(pause, rate.excess(limit, now))
        return pause

    def _limit_of_listener(self, name: str, listener: str) -> int:
        """Return the listener's own limit, else unlimited. The broker's limit covers all listeners together."""
        value = own_listener_value(self._config.values, listener, name)
        return value if isinstance(value, int) else 2**31 - 1

    # Limits that reject new connections

    def refusal(self, ip: str) -> str | None:
        """Return why an address may not open another connection, or None."""
        limit = self._limit_of(ip)
        if self._by_ip[ip] >= limit:
            return f"it has {limit} already ({_PER_IP})"
        return None

    def throttled(self, ip: str, now: float) -> float:
        """Count a new connection from an address. Return the seconds to hold it before refusal, 0 to accept."""
        limit = self.ip_rate(ip) if self.ip_rate is not None else None
        if limit is None:
            return 0.0
        if len(self._ip_rates) > _FORGET_ABOVE:
            self._ip_rates = {key: rate for key, rate in self._ip_rates.items() if not rate.is_idle(now)}
        rate = self._ip_rates.get(ip) or self._ip_rates.setdefault(ip, self._new_rate())
        rate.record(1, now)
        wait = rate.excess(limit, now)
        if wait:
            rate.record(-1, now)  # rejected connections do not count
        return wait

    def _new_rate(self) -> Rate:
        config = self._config
        return Rate(config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds"))

    def _limit_of(self, ip: str) -> int:
        if self._config.get_str(_OVERRIDES) != self._overrides_text:
            try:
                self._read_overrides()
            except ConfigError as error:
                logger.error("%s The previous limits stay in force.", error)
                self._overrides_text = self._config.get_str(_OVERRIDES)
        return self._overrides.get(ip, self._config.get_int(_PER_IP))

    def _read_overrides(self) -> None:
        text = self._config.get_str(_OVERRIDES)
        overrides = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            host, colon, limit = part.rpartition(":")
            if not colon or not host or not limit.strip().isdecimal():
                raise ConfigError(f"{_OVERRIDES} cannot be {text!r}; give host:number pairs.")
            try:
                found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
            except OSError:
                raise ConfigError(f"{_OVERRIDES}: {host!r} is not the name of a host.") from None
            overrides.update({str(address[4][0]): int(limit) for address in found})
        self._overrides, self._overrides_text = overrides, text

    # Counting

    def enter(self, listener: str, ip: str) -> None:
        self._total += 1
        self._by_listener[listener] += 1
        self._by_ip[ip] += 1

    def leave(self, listener: str, ip: str) -> None:
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
