"""Access to a cluster for every command: `ottla.client` to administer it, confluent-kafka to produce and consume."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.cli.errors import JobError
from ottla.client.settings import Settings, jaas_options

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer, ShareConsumer

    from ottla.client.cluster import Cluster
    from ottla.security.oauth import OAuth

# Access to a cluster for every command: `ottla.client` to administer it, confluent-kafka to produce and consume.

T = TypeVar("T")

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"
DEFAULT_TIMEOUT = 10.0


class Client:
    """One cluster to talk to. Connections are opened when first needed."""

    def __init__(
        self,
        bootstrap_servers: str = DEFAULT_BOOTSTRAP_SERVER,
        properties: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        ignore_unknown: bool = False,
    ) -> None:
        """`ignore_unknown`: warn about properties that librdkafka lacks and skip them, as Kafka's clients do."""
        from ottla.client.settings import Settings, parse_servers

        self.bootstrap_servers = Settings(parse_servers(bootstrap_servers)).servers
        self.properties = dict(properties or {})
        self.timeout = timeout
        self._ignore_unknown = ignore_unknown
        self._ignored: set[str] = set()
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            from ottla.client.cluster import Cluster
            from ottla.client.settings import Settings

            milliseconds = str(round(self.timeout * 1000))
            properties = {
                **self.properties,
                "bootstrap.servers": self.bootstrap_servers,
                "request.timeout.ms": milliseconds,
                "default.api.timeout.ms": milliseconds,
            }
            settings = Settings.from_properties(properties, client_id="ottla-cli")
            self._cluster = Cluster(settings, advice="Start one with `ottla start`.")
        return self._cluster

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def ensure_reachable(self) -> None:
        """Fail early and clearly, before librdkafka waits for a broker without end.

        The brokers' advertised addresses count, which may differ from the given ones.
        """
        from ottla.client.errors import Unsupported

        with suppress(Unsupported):  # librdkafka may know how
            self.cluster.check_advertised()

    # -- clients ---------------------------------------------------------------------------------------

    def config(self, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
        # librdkafka prints its log on stderr unless it is given a logger.
        logger = logging.getLogger("ottla.cli.librdkafka")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
            logger.propagate = False

        return with_login(
            {
                "client.id": "ottla-cli",
                **self.properties,
                "bootstrap.servers": self.bootstrap_servers,
                **(extra or {}),
                "logger": logger,
            }
        )

    def producer(self, extra: Mapping[str, Any]) -> Producer:
        from confluent_kafka import Producer

        return self._open(Producer, self.config(extra))

    def consumer(self, extra: Mapping[str, Any]) -> Consumer:
        from confluent_kafka import Consumer

        return self._open(Consumer, self.config(extra))

    def share_consumer(self, extra: Mapping[str, Any]) -> ShareConsumer:
        try:
            from confluent_kafka import ShareConsumer
        except ImportError:
            raise JobError("Members of share groups need confluent-kafka 2.16 or newer.") from None
        return self._open(ShareConsumer, self.config(extra))

    def _open(self, kind: Callable[[dict[str, Any]], T], config: dict[str, Any]) -> T:
        from confluent_kafka import KafkaException

        while True:
            try:
                return kind(config)
            except KafkaException as error:
                reason = error.args[0].str()
            unknown = re.match(r'No such configuration property: "(.+)"', reason)
            if unknown is None or not self._ignore_unknown or unknown[1] not in config:
                raise JobError(f"The client configuration is not valid: {reason.rstrip('.')}.")
            del config[unknown[1]]
            self._say_ignored(unknown[1])

    def _say_ignored(self, name: str) -> None:
        if name not in self._ignored:
            self._ignored.add(name)
            moment = time.strftime("%Y-%m-%d %H:%M:%S")
            print(
                f"[{moment},000] WARN These configurations '[{name}]' were supplied but are not used yet. "
                "(org.apache.kafka.common.config.AbstractConfig)",
                file=sys.stderr,
            )


# Logins that librdkafka does not know by the names of Java's properties, or not at all.

_JAAS = "sasl.jaas.config"
# Names of options of a login module, as librdkafka has them.
_KERBEROS = {"principal": "principal", "keyTab": "keytab", "serviceName": "service.name"}


def needs_jaas(properties: Mapping[str, str], options: Mapping[str, str]) -> bool:
    return mechanism_of(properties) in ("OAUTHBEARER", "GSSAPI") or options.get("tokenauth", "") == "true"


def mechanism_of(properties: Mapping[str, Any]) -> str:
    return str(properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "")


def with_login(config: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(config)
    options = jaas_options(found.pop(_JAAS, ""))
    if options.get("tokenauth") == "true":
        raise JobError(
            "librdkafka, which produces and consumes here, cannot log in with a delegation token: use a user's login."
        )
    mechanism = mechanism_of(found)
    if mechanism == "GSSAPI":
        for option, name in _KERBEROS.items():
            if option in options:
                found.setdefault(f"sasl.kerberos.{name}", options[option])
    elif mechanism == "OAUTHBEARER" and str(found.get("sasl.oauthbearer.method", "")).lower() != "oidc":
        sasl = Settings.from_properties(
            {key: value for key, value in config.items() if isinstance(value, str)}
        ).sasl
        if sasl is not None and sasl.oauth is not None:
            found = {key: value for key, value in found.items() if not key.startswith("sasl.oauthbearer.")}
            found["oauth_cb"] = _tokens(sasl.oauth)
    return found


def _tokens(settings: OAuth) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    def token(_config: str) -> tuple[str, float, str, dict[str, str]]:
        from ottla.security import oauth as oauth_tokens

        found = oauth_tokens.token(settings)
        return found, time.time() + oauth_tokens.seconds_left(found), "", dict(settings.extensions)

    return token
