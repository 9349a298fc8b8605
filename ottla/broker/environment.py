"""Broker settings from environment variables, with the names that Kafka's container images use.

`KAFKA_LOG_RETENTION_HOURS` is `log.retention.hours`: one underscore is a dot, two are an underscore, three a dash.
`OTTLA_METRICS_PORT` is `metrics.port`, and `OTTLA_AUDIT_ENABLE` is `ottla.audit.enable`. `…_FILE` names a file that has
the value.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path

from ottla.metadata.configs.broker_config import ConfigError
from ottla.metadata.configs.broker_config_table import ALIASES, BROKER_CONFIGS

_KAFKA, _OTTLA, _FILE = "KAFKA_", "OTTLA_", "_FILE"
_OF_A_LISTENER = "listener.name."
# The id of the first broker of a pool whose host names end with numbers, as those of a StatefulSet do.
_ID_BASE = "OTTLA_BROKER_ID_BASE"
# Variables of Kafka's scripts and images that are not settings of a broker.
_NO_SETTINGS = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)


def settings_from_environment(
    environment: Mapping[str, str], *, host_name: str | None = None
) -> dict[str, str]:
    """Return the settings in these variables, with the defaults of Kafka's image for listeners. Raises ConfigError."""
    settings: dict[str, str] = {}
    origins: dict[str, str] = {}
    for variable, value in sorted(environment.items()):
        found = _setting(variable)
        if found is None:
            continue
        name, from_file = found
        if name in origins:
            raise ConfigError(f"{origins[name]} and {variable} are both set: unset one of them.")
        origins[name] = variable
        settings[name] = _read(variable, value) if from_file else value
    if (base := environment.get(_ID_BASE)) is not None:
        settings.setdefault("broker.id", str(_broker_id(base, host_name or socket.gethostname())))
    return _with_broker_id(_with_listeners(_without_kraft(settings)))


def _setting(variable: str) -> tuple[str, bool] | None:
    """Return the name of the setting, and whether the variable names a file that has its value."""
    if variable in _NO_SETTINGS or variable == _ID_BASE:
        return None
    name = _known_name(variable)
    if name is not None and not (variable.endswith(_FILE) and name.startswith(_OF_A_LISTENER)):
        return name, False
    if variable.endswith(_FILE):
        name = _known_name(variable.removesuffix(_FILE))
        if name is not None:
            return name, True
    # The broker warns about unknown settings of Kafka. Other variables of Ottla belong to commands.
    return (_dotted(variable.removeprefix(_KAFKA)), False) if variable.startswith(_KAFKA) else None


def _known_name(variable: str) -> str | None:
    """Return the setting of a broker that a variable names, if any."""
    if variable.startswith(_KAFKA):
        name = _dotted(variable.removeprefix(_KAFKA))
        return name if name in BROKER_CONFIGS or name in ALIASES or name.startswith(_OF_A_LISTENER) else None
    if variable.startswith(_OTTLA):
        name = _dotted(variable.removeprefix(_OTTLA))
        return next((each for each in (f"ottla.{name}", name) if each in BROKER_CONFIGS), None)
    return None


def _dotted(name: str) -> str:
    marks = {"_": ".", "__": "_", "___": "-"}
    return re.sub("_{1,3}", lambda found: marks[found[0]], name.lower())


def _read(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        raise ConfigError(f"{variable}: cannot read {path}: {error.strerror}.") from None
    except ValueError:
        raise ConfigError(f"{variable}: {path} is not text in UTF-8.") from None


def _broker_id(base: str, host_name: str) -> int:
    number = re.search(r"(\d+)$", host_name.partition(".")[0])
    if not base.isdecimal():
        raise ConfigError(f"{_ID_BASE} is {base!r}, which is not a number.")
    if number is None:
        raise ConfigError(
            f"{_ID_BASE} needs a host name that ends with a number, and this one is {host_name}: set KAFKA_BROKER_ID."
        )
    return int(base) + int(number[1])


def _with_broker_id(settings: dict[str, str]) -> dict[str, str]:
    """Fill {broker} in advertised listeners with the id. In a port, 32090+{broker} is a sum.

    Brokers that share their variables can then have a port or a name each outside of their network.
    """
    advertised = settings.get("advertised.listeners", "")
    if "{broker}" not in advertised:
        return settings
    broker_id = settings.get("broker.id", settings.get("node.id", ""))
    if not broker_id.isdecimal():
        raise ConfigError(
            f"KAFKA_ADVERTISED_LISTENERS has {{broker}} in it, which needs KAFKA_BROKER_ID or {_ID_BASE}."
        )
    advertised = re.sub(r"(\d+)\+\{broker\}", lambda port: str(int(port[1]) + int(broker_id)), advertised)
    return {**settings, "advertised.listeners": advertised.replace("{broker}", broker_id)}


# Files for Kafka's images


def _without_kraft(settings: Mapping[str, str]) -> dict[str, str]:
    """Take one node that is broker and controller as a broker alone, which needs no controller listener."""
    voters = [each for each in settings.get("controller.quorum.voters", "").split(",") if each]
    voters = voters or [
        each for each in settings.get("controller.quorum.bootstrap.servers", "").split(",") if each
    ]
    if "process.roles" not in settings:
        return dict(settings)
    if len(voters) > 1 and not settings.get("zookeeper.connect"):
        raise ConfigError(
            "KAFKA_CONTROLLER_QUORUM_VOTERS names several controllers of KRaft, and clusters of Ottla use ZooKeeper: "
            "set KAFKA_ZOOKEEPER_CONNECT instead."
        )
    if settings["process.roles"].strip() == "controller":
        raise ConfigError(
            "KAFKA_PROCESS_ROLES is controller, and Ottla has no KRaft controllers: leave this container out."
        )
    controllers = {each.strip().upper() for each in settings.get("controller.listener.names", "").split(",")}
    kept = {
        name: value
        for name, value in settings.items()
        if name != "process.roles" and not name.startswith("controller.")
    }
    for name in ("listeners", "advertised.listeners"):
        if name in kept:
            listeners = [each.strip() for each in kept[name].split(",")]
            kept[name] = ",".join(
                each for each in listeners if each.partition("://")[0].upper() not in controllers
            )
    return kept


def _with_listeners(settings: dict[str, str]) -> dict[str, str]:
    """Listen where the advertised listeners lead, or on port 9092 for clients on the container's host."""
    if "listeners" in settings:
        return settings
    advertised = settings.setdefault("advertised.listeners", "PLAINTEXT://localhost:9092")
    listeners = []
    for each in advertised.split(","):
        name, _, address = each.strip().partition("://")
        listeners.append(f"{name}://0.0.0.0:{address.rpartition(':')[2]}")
    settings["listeners"] = ",".join(listeners)
    return settings
