"""Worker settings, named as in connect-distributed.properties and connect-standalone.properties."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ottla.client.settings import Settings
from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Importance,
    at_least,
    between,
    invalid,
    one_of,
)

_STRING, _INT, _LONG, _LIST = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.LIST
_SHORT, _BOOLEAN, _CLASS = ConfigType.SHORT, ConfigType.BOOLEAN, ConfigType.CLASS
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

SIMPLE_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

#: Settings with these prefixes pass through unchecked.
_PREFIXES = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "producer.",
    "consumer.",
    "admin.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "connector.client.config.override.",
    "listeners.https.",
    "metrics.",
    "sasl.",
    "security.",
    "spark.",
    "ssl.",
)

#: Removed settings and their replacements.
_REMOVED = {
    "rest.host.name": "use listeners instead",
    "rest.port": "use listeners instead",
    "internal.key.converter": "the internal topics are always JSON without schemas",
    "internal.value.converter": "the internal topics are always JSON without schemas",
    "internal.key.converter.schemas.enable": "the internal topics are always JSON without schemas",
    "internal.value.converter.schemas.enable": "the internal topics are always JSON without schemas",
}


def _replication_factor(name: str, value: Any) -> None:
    if value is not None and value != -1 and value < 1:
        raise invalid(
            name, value, "Replication factor must be -1 to use the broker's default, or a positive number"
        )


def _partitions(name: str, value: Any) -> None:
    if value is not None and value != -1 and value < 1:
        raise invalid(
            name, value, "Number of partitions must be -1 to use the broker's default, or a positive number"
        )


def _common() -> ConfigDef:
    return (
        ConfigDef()
        .define("bootstrap.servers", _LIST, ["localhost:9092"], _HIGH, "Where the cluster is reached first.")
        .define("key.converter", _CLASS, importance=_HIGH, documentation="Converter of keys.")
        .define("value.converter", _CLASS, importance=_HIGH, documentation="Converter of values.")
        .define("header.converter", _CLASS, SIMPLE_HEADER_CONVERTER, _LOW, "Converter of headers.")
        .define("task.shutdown.graceful.timeout.ms", _LONG, 5000, _LOW, "How long tasks may take to stop.")
        .define("offset.flush.interval.ms", _LONG, 60_000, _LOW, "How often offsets of tasks are committed.")
        .define("offset.flush.timeout.ms", _LONG, 5000, _LOW, "How long a commit of offsets may take.")
        .define("listeners", _LIST, ["http://:8083"], _LOW, "Where the REST API listens.")
        .define("admin.listeners", _LIST, None, _LOW, "Where /admin listens; empty switches it off.")
        .define("rest.advertised.host.name", _STRING, None, _LOW, "The host that other workers connect to.")
        .define("rest.advertised.port", _INT, None, _LOW, "The port that other workers connect to.")
        .define("rest.advertised.listener", _STRING, None, _LOW, "The listener for other workers.")
        .define(
            "authentication.method",
            _STRING,
            "NONE",
            _MEDIUM,
            "KAFKA: callers log in with their Kafka users, and need rights on the cluster.",
            validator=_any_case("none", "kafka"),
        )
        .define("allowed.hosts", _LIST, [], _LOW, "Names of the worker, for callers without a login.")
        .define(
            "connector.file.directories",
            _LIST,
            [],
            _MEDIUM,
            "Directories below which connectors over REST may use local files.",
        )
        .define("rest.extension.classes", _LIST, [], _LOW, "Extensions of the REST API.")
        .define("access.control.allow.origin", _STRING, "", _LOW, "Access-Control-Allow-Origin.")
        .define("access.control.allow.methods", _STRING, "", _LOW, "Methods for requests across origins.")
        .define("response.http.headers.config", _STRING, "", _LOW, "Rules for headers of responses.")
        .define("ssl.client.auth", _STRING, "none", _LOW, "Whether clients of HTTPS show a certificate.")
        .define("plugin.path", _LIST, None, _LOW, "Directories of plugins.")
        .define(
            "plugin.discovery",
            _STRING,
            "hybrid_warn",
            _LOW,
            "How plugins are found.",
            validator=_any_case("only_scan", "hybrid_warn", "hybrid_fail", "service_load"),
        )
        .define("config.providers", _LIST, [], _LOW, "Providers for ${…} in configs.")
        .define("connector.client.config.override.policy", _STRING, "All", _MEDIUM, "All, None or Principal.")
        .define("topic.tracking.enable", _BOOLEAN, True, _LOW, "Whether the topics in use are recorded.")
        .define("topic.tracking.allow.reset", _BOOLEAN, True, _LOW, "Whether that record may be reset.")
        .define("topic.creation.enable", _BOOLEAN, True, _LOW, "Whether sources may create topics.")
        .define("client.id", _STRING, "", _LOW, "The name of the worker's clients.")
        .define("client.dns.lookup", _STRING, "use_all_dns_ips", _MEDIUM, "Lookup of addresses.")
        .define("request.timeout.ms", _INT, 40_000, _MEDIUM, "For an answer.", validator=at_least(0))
        .define("retry.backoff.ms", _LONG, 100, _LOW, "Before another attempt.", validator=at_least(0))
        .define("metric.reporters", _LIST, [], _LOW, "Not used: metrics are shown by the worker itself.")
    )


def _any_case(*values: str) -> Any:
    check = one_of(*values)
    return lambda name, value: check(name, value.lower())


def _distributed() -> ConfigDef:
    defined = _common()
    defined.define("group.id", _STRING, importance=_HIGH, documentation="Which workers belong together.")
    for kind in ("config", "offset", "status"):
        defined.define(
            f"{kind}.storage.topic", _STRING, importance=_HIGH, documentation=f"Topic with {kind}."
        )
        defined.define(
            f"{kind}.storage.replication.factor",
            _SHORT,
            3,
            _LOW,
            "When it is created.",
            validator=_replication_factor,
        )
    defined.define("offset.storage.partitions", _INT, 25, _LOW, "When created.", validator=_partitions)
    defined.define("status.storage.partitions", _INT, 5, _LOW, "When created.", validator=_partitions)
    hmac = "HmacSHA256"
    return (
        defined.define(
            "session.timeout.ms", _INT, 10_000, _HIGH, "After so long without a heartbeat it is out."
        )
        .define("rebalance.timeout.ms", _INT, 60_000, _HIGH, "For how long a rebalance waits for a worker.")
        .define("heartbeat.interval.ms", _INT, 3000, _HIGH, "Between heartbeats.")
        .define("worker.sync.timeout.ms", _INT, 3000, _MEDIUM, "For reading configs before a rebalance ends.")
        .define(
            "worker.unsync.backoff.ms", _INT, 300_000, _MEDIUM, "After configs could not be read in time."
        )
        .define(
            "connect.protocol",
            _STRING,
            "sessioned",
            _LOW,
            "Protocol of the group.",
            validator=_any_case("eager", "compatible", "sessioned"),
        )
        .define(
            "scheduled.rebalance.max.delay.ms",
            _INT,
            300_000,
            _LOW,
            "For how long the connectors of a worker that is gone wait for it to come back.",
            validator=between(0, 2**31 - 1),
        )
        .define(
            "exactly.once.source.support",
            _STRING,
            "disabled",
            _HIGH,
            "Sources are exactly once here whatever is set.",
            validator=_any_case("disabled", "preparing", "enabled"),
        )
        .define("inter.worker.key.generation.algorithm", _STRING, hmac, _LOW, "Of session keys.")
        .define("inter.worker.key.size", _INT, None, _LOW, "Of session keys, in bits.")
        .define("inter.worker.key.ttl.ms", _INT, 3_600_000, _LOW, "When a session key is replaced.")
        .define("inter.worker.signature.algorithm", _STRING, hmac, _LOW, "Of requests between workers.")
        .define("inter.worker.verification.algorithms", _LIST, [hmac], _LOW, "Signatures that are accepted.")
    )


def _standalone() -> ConfigDef:
    return (
        _common()
        .define("offset.storage.file.filename", _STRING, importance=_HIGH, documentation="File with offsets.")
        .define("offset.storage.topic", _STRING, None, _LOW, "Topic with offsets; has a name of its own.")
    )


DISTRIBUTED = _distributed()
STANDALONE = _standalone()


@dataclass(frozen=True)
class WorkerConfig:
    """Worker settings, with resolved variables in `properties` and parsed values in `values`. Raises ConfigError."""

    properties: Mapping[str, str]
    values: Mapping[str, Any]
    is_distributed: bool
    #: One sentence each, for the log.
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, distributed: bool = True) -> WorkerConfig:
        if properties.get("config.providers"):
            from ottla.connect.config.providers import ConfigProviders

            properties = ConfigProviders.from_config(properties).resolved(properties)
        definition = DISTRIBUTED if distributed else STANDALONE
        values = definition.parse(properties)
        if distributed:
            _check_times(values)
        topics = [values.get(f"{kind}.storage.topic") for kind in ("config", "offset", "status")]
        if distributed and len(set(topics)) != 3:
            raise ConfigError(
                "config.storage.topic, offset.storage.topic and status.storage.topic must be three topics."
            )
        return cls(dict(properties), values, distributed, tuple(_warnings(definition, properties)))

    # Cluster access

    @cached_property
    def client_properties(self) -> dict[str, str]:
        """Properties of the worker's own clients, with the Java client's names."""
        own = {name: value for name, value in self.properties.items() if name.startswith(_CLIENT_PREFIXES)}
        own["bootstrap.servers"] = ",".join(self.values["bootstrap.servers"])
        for name in ("client.id", "client.dns.lookup", "request.timeout.ms", "retry.backoff.ms"):
            if self.properties.get(name):
                own[name] = self.properties[name]
        return own

    @cached_property
    def client_settings(self) -> Settings:
        return Settings.from_properties(self.client_properties, client_id=self.client_id)

    @property
    def client_id(self) -> str:
        return self.values["client.id"] or (f"connect-{self.group_id}" if self.is_distributed else "connect")

    def overridden(self, kind: str) -> dict[str, str]:
        """`kind` is `producer`, `consumer` or `admin`.

        The worker's settings with that prefix override the client properties.
        """
        return {**self.client_properties, **self.with_prefix(f"{kind}.")}

    # The group and the three topics

    @property
    def group_id(self) -> str:
        return str(self.values.get("group.id") or "connect-standalone")

    @property
    def config_topic(self) -> str:
        return str(self.values["config.storage.topic"])

    @property
    def offset_topic(self) -> str:
        """A standalone worker also needs a topic, one per `offset_file`, because transactions do not cover files."""
        named = self.values.get("offset.storage.topic")
        if named:
            return str(named)
        where = f"{socket.gethostname()}:{Path(self.offset_file or '').absolute()}"
        return f"connect-standalone-offsets-{hashlib.sha256(where.encode()).hexdigest()[:8]}"

    @property
    def status_topic(self) -> str:
        return str(self.values["status.storage.topic"])

    @property
    def offset_file(self) -> str | None:
        return self.values.get("offset.storage.file.filename")

    def topic_settings(self, kind: str) -> dict[str, str]:
        """Return extra topic settings: `config.storage.min.insync.replicas` belongs to the kind `config`."""
        known = ("topic", "partitions", "replication.factor", "file.filename")
        given = self.with_prefix(f"{kind}.storage.")
        return {name: value for name, value in given.items() if name not in known}

    # Defaults for connectors

    @property
    def key_converter(self) -> str:
        return str(self.values["key.converter"])

    @property
    def value_converter(self) -> str:
        return str(self.values["value.converter"])

    @property
    def header_converter(self) -> str:
        return str(self.values["header.converter"])

    def converter_config(self, kind: str) -> dict[str, str]:
        return self.with_prefix(f"{kind}.")

    @property
    def config_providers(self) -> dict[str, str]:
        return {name: value for name, value in self.properties.items() if name.startswith("config.providers")}

    @property
    def plugin_path(self) -> Sequence[str]:
        return self.values["plugin.path"] or ()

    @property
    def offset_flush_interval(self) -> float:
        return float(self.values["offset.flush.interval.ms"]) / 1000

    @property
    def shutdown_timeout(self) -> float:
        return float(self.values["task.shutdown.graceful.timeout.ms"]) / 1000

    @property
    def creates_topics(self) -> bool:
        return bool(self.values["topic.creation.enable"])

    # Spark

    @property
    def spark_master(self) -> str:
        return self.properties.get("spark.master", "local[*]")

    @property
    def spark_settings(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self.properties.items()
            if name.startswith("spark.") and name != "spark.master"
        }

    def with_prefix(self, prefix: str) -> dict[str, str]:
        return {
            name.removeprefix(prefix): value
            for name, value in self.properties.items()
            if name.startswith(prefix) and name != prefix
        }


_CLIENT_PREFIXES = ("sasl.", "ssl.", "security.")


def _check_times(values: Mapping[str, Any]) -> None:
    heartbeat, session = values["heartbeat.interval.ms"], values["session.timeout.ms"]
    if heartbeat >= session:
        raise invalid(
            "heartbeat.interval.ms", heartbeat, f"It must be less than session.timeout.ms, {session}"
        )
    if values["inter.worker.signature.algorithm"] not in values["inter.worker.verification.algorithms"]:
        raise invalid(
            "inter.worker.signature.algorithm",
            values["inter.worker.signature.algorithm"],
            "It must be one of inter.worker.verification.algorithms",
        )


def _warnings(definition: ConfigDef, properties: Mapping[str, str]) -> list[str]:
    found = []
    for name in properties:
        if name in _REMOVED:
            found.append(f"The setting {name} has no effect any more: {_REMOVED[name]}.")
        elif name not in definition.keys and name not in _OTHERS and not name.startswith(_PREFIXES):
            found.append(f"The setting {name} is not known to a worker and is ignored.")
    return found


#: Settings of the client, or settings that only Kafka's worker uses.
_OTHERS = frozenset(
    (
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "group.id",
        "java.security.auth.login.config",
        "kafka.libs.path",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    )
)
