"""Broker configuration: server.properties, overrides, and changes at run time."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.metadata.configs.broker_config_table import (
    ALIASES,
    BROKER_CONFIGS,
    broker_config_def,
    has_effect,
    is_unused,
)
from ottla.metadata.configs.config_defs import ConfigDef, InvalidValue, TypedValues, Value, parse_value
from ottla.metadata.configs.listeners import (
    Listener,
    ListenerError,
    advertised_endpoints,
    check_advertised,
    check_bound,
    parse_listeners,
    parse_protocol_map,
)
from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS, BrokerSynonym
from ottla.metadata.nodes import Endpoint
from ottla.properties import PropertiesError, decode_properties, parse_properties

logger = logging.getLogger(__name__)

Overrides = Mapping[str, str] | Sequence[str]
LOCAL_LISTENER = "PLAINTEXT://127.0.0.1:9092"


class ConfigError(ValueError):
    """A configuration error that the operator has to fix. The message names problem, place and fix in one sentence."""


def single_broker_defaults() -> dict[str, str]:
    """Return Ottla's deviations from Kafka for a broker without ZooKeeper, which cannot replicate to other brokers."""
    return {
        "broker.id": "0",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        # Nobody wants to wait three seconds for more members on a laptop.
        "group.initial.rebalance.delay.ms": "0",
    }


def embedded_defaults() -> dict[str, str]:
    """Return the defaults for a broker started without a file, which serves the local machine only."""
    return single_broker_defaults() | {"listeners": LOCAL_LISTENER}


_DEFAULT_VALUES: dict[str, Value] = {
    name: parse_value(definition, definition.default) for name, definition in BROKER_CONFIGS.items()
}


class BrokerConfig(TypedValues):
    """The effective values.

    Invariant: `values` has every known name, from the first layer that sets it: `dynamic_broker`, `dynamic_default`,
    `static`, Kafka's default. Owner: the event loop.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        defaults: Mapping[str, str] | None = None,
        origins: Mapping[str, str] | None = None,
    ) -> None:
        """`defaults` apply to names missing in `properties`; `origins` maps each name to the place where it was set."""
        self.warnings: list[str] = []
        self.static: dict[str, str] = {}
        self.dynamic_broker: dict[str, str] = {}
        self.dynamic_default: dict[str, str] = {}
        self._origins = {ALIASES.get(name, name): origin for name, origin in (origins or {}).items()}
        given = dict(properties or {})
        self._given = frozenset(given)
        base = dict(defaults or {})
        if "node.id" in given:
            base.pop("broker.id", None)
        for name, text in (base | given).items():
            self.static[self._known_name(name)] = text
        self.values: dict[str, Value] = _DEFAULT_VALUES | {
            name: self._parse_static(name, definition, text)
            for name, text in self.static.items()
            if (definition := broker_config_def(name)) is not None
        }
        self._check_static()

    @classmethod
    def embedded(cls, overrides: Overrides = ()) -> BrokerConfig:
        """Build a configuration without a file."""
        given = _read_overrides(overrides)
        if given.get("zookeeper.connect", "").strip():
            return cls(given, defaults={"listeners": LOCAL_LISTENER})
        return cls(given, defaults=embedded_defaults())

    @classmethod
    def load(cls, path: str | Path, overrides: Overrides = ()) -> BrokerConfig:
        path = Path(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
        return cls.parse(decode_properties(data), source=str(path), overrides=overrides)

    @classmethod
    def parse(
        cls, text: str, *, source: str = "server.properties", overrides: Overrides = ()
    ) -> BrokerConfig:
        """Parse a properties file. Without zookeeper.connect the broker is standalone."""
        try:
            found = parse_properties(text)
        except PropertiesError as error:
            raise ConfigError(f"{source}:{error.line}: {error.reason}.") from None
        properties = {key: value for key, value, _ in found}
        check_is_config(properties, source)
        origins = {key: f"{source}:{line}" for key, _, line in found}
        for name, value in _read_overrides(overrides).items():
            properties[name] = value
            origins.pop(name, None)
        alone = not properties.get("zookeeper.connect", "").strip()
        return cls(properties, defaults=single_broker_defaults() if alone else {}, origins=origins)

    # Static settings

    def _where(self, name: str) -> str:
        return f"{self._origins[name]}: " if name in self._origins else ""

    def _known_name(self, name: str) -> str:
        if name in ALIASES:
            self.warnings.append(f"{self._where(ALIASES[name])}{name} is read as {ALIASES[name]}.")
            return ALIASES[name]
        if broker_config_def(name) is None:
            self.warnings.append(f"{self._where(name)}{_unknown(name)}")
        elif not has_effect(name):
            self.warnings.append(f"{self._where(name)}{_unused(name)}")
        return name

    def _parse_static(self, name: str, definition: ConfigDef, text: str) -> Value:
        try:
            return parse_value(definition, text, kept=True)
        except InvalidValue:
            raise ConfigError(f"{self._where(name)}{refusal(name, definition, text)}") from None

    def _check_static(self) -> None:
        for name, reason in broken_requirements(self.values):
            raise ConfigError(f"{self._where(name)}{name} {reason}.")
        node_id, broker_id = self.get_optional_int("node.id"), self.get_int("broker.id")
        if node_id is not None and broker_id not in (-1, node_id):
            raise ConfigError(
                f"{self._where('node.id')}node.id is {node_id} but broker.id is {broker_id}; set one of them."
            )
        name = "listener.security.protocol.map"
        try:
            protocols = parse_protocol_map(self.get_str(name))
            name = "listeners"
            self.listeners: tuple[Listener, ...] = parse_listeners(self.get_list(name), protocols)
            check_bound(self.listeners)
            name = "advertised.listeners"
            self._advertised = self.listeners
            if self.get(name):
                self._advertised = parse_listeners(self.get_list(name), protocols)
                check_advertised(self._advertised, self.listeners)
        except ListenerError as error:
            raise ConfigError(f"{self._where(name)}{name}: {error}.") from None

    # Dynamic settings

    def set_dynamic(
        self, *, broker: Mapping[str, str] | None = None, cluster_default: Mapping[str, str] | None = None
    ) -> None:
        """Replace the given layers: this broker's own and the cluster-wide default."""
        if broker is not None:
            self.dynamic_broker = dict(broker)
        if cluster_default is not None:
            self.dynamic_default = dict(cluster_default)
        self.values = self.values_with(self.dynamic_broker)

    def values_with(self, broker: Mapping[str, str]) -> dict[str, Value]:
        """Return the effective values if `broker` were this broker's dynamic layer."""
        values = dict(_DEFAULT_VALUES)
        for layer in (self.static, self.dynamic_default, broker):
            for name, text in layer.items():
                definition = broker_config_def(name)
                if definition is None:
                    continue
                try:
                    values[name] = parse_value(definition, text, kept=True)
                except InvalidValue as error:
                    # The setting was valid once, perhaps for another version: ignoring it beats refusing to start.
                    logger.warning("A dynamic configuration is ignored: %s", error)
        return values

    # Derived values

    @property
    def broker_id(self) -> int:
        """-1 if not set."""
        node_id = self.get_optional_int("node.id")
        return self.get_int("broker.id") if node_id is None else node_id

    def is_given(self, name: str) -> bool:
        """Return True if the operator set this name, rather than Ottla's defaults."""
        if name == "broker.id" and "node.id" in self._given:
            return True
        return name in self._given

    def origin(self, name: str) -> str | None:
        """Return the file and line that set a name, or None."""
        return self._origins.get(name)

    def set_broker_id(self, broker_id: int) -> None:
        self.static["broker.id"] = str(broker_id)
        self.values = {**self.values, "broker.id": broker_id}

    @property
    def zookeeper_connect(self) -> str | None:
        return self.get_optional_str("zookeeper.connect") or None

    @property
    def log_dirs(self) -> list[Path]:
        names = self.get_list("log.dirs") if self.get("log.dirs") else self.get_list("log.dir")
        return [Path(name) for name in names]

    @property
    def inter_broker_listener_name(self) -> str:
        name = self.get_optional_str("inter.broker.listener.name")
        return (name or self.get_str("security.inter.broker.protocol")).upper()

    def advertised_listeners(self, bound_ports: Mapping[str, int] | None = None) -> tuple[Endpoint, ...]:
        """Return the endpoints that clients connect to. `bound_ports` replaces port 0, by listener name."""
        return advertised_endpoints(self._advertised, bound_ports or {})

    def topic_default(self, name: str) -> Value:
        """Return the default of a topic config: its first synonym that is set."""
        return _first_synonym(self.values, TOPIC_SYNONYMS.get(name, ()), TOPIC_CONFIGS[name])


def refusal(name: str, definition: ConfigDef, text: str) -> str:
    shown = "what it is" if definition.sensitive else repr(text)
    return f"{name} cannot be {shown}; give {definition.advice(text)}."


def _first_synonym(
    values: Mapping[str, Value], synonyms: Sequence[BrokerSynonym], definition: ConfigDef
) -> Value:
    for name, factor in synonyms:
        value = values[name]
        if value is None:
            continue
        if isinstance(value, int) and factor != 1:
            # A negative number of hours means no limit.
            return value * factor if value >= 0 else -1
        return -1 if name.startswith("log.retention.ms") and isinstance(value, int) and value < 0 else value
    return parse_value(definition, definition.default)


_RETENTION_RULE = "must be unlimited (-1) or, equal or greater than 1"
_AT_LEAST = {"log.roll.ms": 1, "log.roll.jitter.ms": 0}


def broken_requirements(values: Mapping[str, Value]) -> list[tuple[str, str]]:
    """Return violated rules that Kafka checks after the types, as pairs of name and requirement."""
    broken = []
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if values[name] == 0:
            broken.append((name, _RETENTION_RULE))
    for name, least in _AT_LEAST.items():
        value = values[name]
        if isinstance(value, int) and value < least:
            broken.append((name, f"must be greater than or equal to {least}"))
    return broken


def _read_overrides(overrides: Overrides) -> dict[str, str]:
    if isinstance(overrides, Mapping):
        return {key: str(value) for key, value in overrides.items()}
    properties = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{text!r} sets nothing; write key=value.")
        properties[key.strip()] = value
    return properties


def _unused(name: str) -> str:
    return f"{name} is a setting of Kafka that Ottla does not use; it is ignored."


_CONTROLLER_LISTENERS = "controller.listener.names"  # of KRaft
_PROSE = 3  # a file with many keys, all unknown to a broker, is another kind of file


def check_is_config(properties: Mapping[str, str], source: str) -> None:
    """Raise ConfigError for a file of another kind, such as prose or a KRaft controller's settings."""
    known = (*BROKER_CONFIGS, *ALIASES, *TOPIC_SYNONYMS)
    if len(properties) >= _PROSE and not any(name in known or is_unused(name) for name in properties):
        first = next(iter(properties))
        raise ConfigError(
            f"{source} is not a server.properties: it sets nothing that a broker knows, but {first!r}. Each line is "
            "KEY=VALUE, for example broker.id=0."
        )
    controllers = [each.strip().upper() for each in properties.get(_CONTROLLER_LISTENERS, "").split(",")]
    listeners = [
        each.partition("://")[0].strip().upper() for each in properties.get("listeners", "").split(",")
    ]
    if "process.roles" in properties and (
        extra := [each for each in listeners if each and each in controllers]
    ):
        raise ConfigError(
            f"{source} is for Kafka in KRaft mode (process.roles), and Ottla has no KRaft controllers. Remove "
            f"{', '.join(extra)} from listeners, and set zookeeper.connect if the broker belongs to a cluster."
        )


def _unknown(name: str) -> str:
    if is_unused(name):
        return _unused(name)
    if name in TOPIC_SYNONYMS:
        return f"{name} is a setting of topics and is ignored; did you mean {TOPIC_SYNONYMS[name][0].name}?"
    import difflib  # loaded only after a typo

    nearest = difflib.get_close_matches(name, BROKER_CONFIGS, 1, cutoff=0.7)
    hint = f"; did you mean {nearest[0]}?" if nearest else "."
    return f"{name} is not a setting of a broker and is ignored{hint}"
