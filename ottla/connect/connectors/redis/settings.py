"""Settings of the Redis sinks, and the connection address derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    between,
    one_of,
)
from ottla.connect.errors import ConnectError

COMMANDS = ("SET", "HSET", "DEL", "XADD", "LPUSH", "RPUSH", "SADD", "ZADD", "PUBLISH", "JSONSET", "TSADD")

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _INT, _BOOLEAN, _PASSWORD = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.BOOLEAN,
    ConfigType.PASSWORD,
)


def redis() -> ConfigDef:
    """`com.redis.kafka.connect.RedisSinkConnector`."""
    return (
        ConfigDef()
        .define(
            "redis.uri", _STRING, "", _MEDIUM, "The address, such as redis://host:6379/0; rediss:// is TLS."
        )
        .define("redis.host", _STRING, "localhost", _HIGH, "The host, if redis.uri is not set.")
        .define(
            "redis.port", _INT, 6379, _HIGH, "The port, if redis.uri is not set.", validator=between(1, 65535)
        )
        .define("redis.username", _STRING, "", _MEDIUM, "User name.")
        .define("redis.password", _PASSWORD, "", _MEDIUM, "Password.")
        .define("redis.tls", _BOOLEAN, False, _MEDIUM, "Use TLS.")
        .define("redis.insecure", _BOOLEAN, False, _MEDIUM, "Accept any certificate.")
        .define("redis.cacert", _STRING, "", _MEDIUM, "File with CA certificates.")
        .define("redis.key.file", _STRING, "", _MEDIUM, "The file with the client's key.")
        .define("redis.key.cert", _STRING, "", _MEDIUM, "The file with the client's certificate.")
        .define(
            "redis.timeout",
            ConfigType.LONG,
            60,
            _MEDIUM,
            "Seconds to wait for an answer.",
            validator=at_least(1),
        )
        .define(
            "redis.command",
            _STRING,
            "XADD",
            _HIGH,
            "Redis command for each record.",
            validator=one_of(*COMMANDS),
        )
        .define(
            "redis.key",
            _STRING,
            "${topic}",
            _MEDIUM,
            "Key of the collection, or prefix of the record's key.",
        )
        .define(
            "redis.separator", _STRING, ":", _MEDIUM, ("Separator between redis.key and the record's key.")
        )
        .define("redis.charset", _STRING, "UTF-8", _LOW, "The character set of keys and values.")
        .define(
            "redis.multiexec",
            _BOOLEAN,
            True,
            _MEDIUM,
            "Write records and their offsets in one transaction.",
        )
        .define(
            "redis.wait.replicas",
            _INT,
            0,
            _MEDIUM,
            "Number of replicas that must acknowledge the records.",
            validator=at_least(0),
        )
        .define(
            "redis.wait.timeout",
            ConfigType.LONG,
            1000,
            _MEDIUM,
            "Time to wait for replicas.",
            validator=at_least(0),
        )
        .define("redis.pool", _INT, 8, _LOW, "No effect; a task has one connection.")
    )


def cache() -> ConfigDef:
    """`com.github.jcustenborder.kafka.connect.redis.RedisSinkConnector`."""
    return (
        ConfigDef()
        .define("redis.hosts", ConfigType.LIST, ["localhost:6379"], _HIGH, "Addresses of Redis.")
        .define(
            "redis.client.mode",
            _STRING,
            "Standalone",
            _MEDIUM,
            "Standalone only.",
            validator=one_of("Standalone"),
        )
        .define("redis.database", _INT, 1, _MEDIUM, "The number of the database.", validator=at_least(0))
        .define(
            "redis.operation.timeout.ms",
            ConfigType.LONG,
            10000,
            _MEDIUM,
            "Time to wait for a response.",
            validator=at_least(100),
        )
        .define("redis.password", _PASSWORD, "", _MEDIUM, "Password.")
        .define("redis.ssl.enabled", _BOOLEAN, False, _MEDIUM, "Use TLS.")
        .define("redis.charset", _STRING, "UTF-8", _LOW, "The character set of keys and values.")
    )


def address(settings: Mapping[str, Any]) -> dict[str, Any]:
    if "redis.hosts" in settings:
        host, _, port = str(settings["redis.hosts"][0]).partition(":")
        found: dict[str, Any] = {
            "host": host,
            "port": _number(port or "6379", "redis.hosts"),
            "db": settings["redis.database"],
            "password": settings["redis.password"] or None,
            "ssl": settings["redis.ssl.enabled"],
            "socket_timeout": settings["redis.operation.timeout.ms"] / 1000,
        }
    else:
        found = _by_uri(settings)
    return {**found, "socket_connect_timeout": min(found["socket_timeout"], 10)}


def _by_uri(settings: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "host": settings["redis.host"],
        "port": settings["redis.port"],
        "username": settings["redis.username"] or None,
        "password": settings["redis.password"] or None,
        "ssl": settings["redis.tls"],
        "socket_timeout": settings["redis.timeout"],
    }
    if settings["redis.uri"]:
        parts = urlsplit(settings["redis.uri"])
        if parts.scheme not in ("redis", "rediss") or not parts.hostname:
            raise ConnectError(
                f"redis.uri {settings['redis.uri']!r} is not an address such as redis://host:6379."
            )
        found |= {"host": parts.hostname, "port": parts.port or 6379, "ssl": parts.scheme == "rediss"}
        if parts.path.strip("/"):
            found["db"] = _number(parts.path.strip("/"), "redis.uri")
        if parts.password:
            found |= {"username": parts.username or None, "password": parts.password}
    if found["ssl"]:
        found |= {
            "ssl_cert_reqs": "none" if settings["redis.insecure"] else "required",
            "ssl_ca_certs": settings["redis.cacert"] or None,
            "ssl_keyfile": settings["redis.key.file"] or None,
            "ssl_certfile": settings["redis.key.cert"] or None,
        }
    return found


def _number(text: str, setting: str) -> int:
    if not text.isdigit():
        raise ConnectError(f"{setting}: {text!r} is not a number.")
    return int(text)
