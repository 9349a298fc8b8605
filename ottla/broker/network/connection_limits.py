"""Limits on connections: how many, from which addresses and how fast (max.connections and its relatives).

As in Kafka, a connection from an address that has too many is closed at once, while at the limits of a listener or of
the broker new connections are not accepted until there is room.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable

from ottla.broker.quotas.rate import Rate
from ottla.log.files import descriptors
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.listeners import own_listener_value

logger = logging.getLogger(__name__)

_PER_IP = "max.connections.per.ip"
_OVERRIDES = "max.connections.per.ip.overrides"
_FORGET_ABOVE = 1000

# Connections per second that an address may open, None where nothing limits it.
IpRate = Callable[[str], float | None]


class ConnectionLimits:
    """Counts the connections of a broker. Settings are read each time, so that changes take effect at once.

    Invariant: the counts are of connections that are open. Owner: the event loop.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._descriptors = descriptors.for_connections()  # the rest of them is needed to serve these
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

    # Limits at which new connections wait

    def has_room(self, listener: str) -> bool:
        most = min(self._config.get_int("max.connections"), self._descriptors)
        return self._total < most and self._by_listener[listener] < self._limit_of_listener(
            "max.connections", listener
        )

    def when_room(self, call: Callable[[], None]) -> None:
        """Call back when a connection has been closed."""
        self._waiting.append(call)

    def pause(self, listener: str, now: float) -> float:
        """Count one new connection; for how many seconds the listener should accept no other after it."""
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
        """Unlimited unless set for the listener: the broker's own limit is another one, for all listeners together."""
        value = own_listener_value(self._config.values, listener, name)
        return value if isinstance(value, int) else 2**31 - 1

    # Limits at which new connections are refused

    def refusal(self, ip: str) -> str | None:
        """Why an address may not open one more connection, or None."""
        limit = self._limit_of(ip)
        if self._by_ip[ip] >= limit:
            return f"it has {limit} already ({_PER_IP})"
        return None

    def throttled(self, ip: str, now: float) -> float:
        """Count one new connection of an address; for how many seconds to hold it before it is refused, 0 to accept."""
        limit = self.ip_rate(ip) if self.ip_rate is not None else None
        if limit is None:
            return 0.0
        if len(self._ip_rates) > _FORGET_ABOVE:
            self._ip_rates = {key: rate for key, rate in self._ip_rates.items() if not rate.is_idle(now)}
        rate = self._ip_rates.get(ip) or self._ip_rates.setdefault(ip, self._new_rate())
        rate.record(1, now)
        wait = rate.excess(limit, now)
        if wait:
            rate.record(-1, now)  # what is refused does not count
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

    # Coming and going

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
