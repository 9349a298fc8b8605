"""Client properties files as Kafka's tools read them, turned into librdkafka's configuration."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.errors import JobError
from ottla.client.settings import jaas_options

# Settings of the Java client that mean nothing to librdkafka; a file shared with Java tools may hold them.
_JAVA_ONLY = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "max.poll.records",
        "buffer.memory",
        "max.block.ms",
        "request.timeout.ms",
        "default.api.timeout.ms",
        "ssl.truststore.type",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.secure.random.implementation",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "interceptor.classes",
        "metric.reporters",
        "partitioner.class",
        "partition.assignment.strategy",
    }
)


def parse_properties(text: str) -> dict[str, str]:
    """java.util.Properties; blanks after a value are dropped."""
    from ottla import properties

    try:
        return {each.key: each.value.rstrip(" \t") for each in properties.parse_properties(text)}
    except properties.PropertiesError as error:
        raise JobError(f"The properties cannot be read: {error}.") from None


def read_client_properties(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read the client properties in {path}: {reason}.") from None
    return to_librdkafka(parse_properties(text))


def to_librdkafka(properties: dict[str, str]) -> dict[str, str]:
    """Kafka's names that librdkafka spells in another way; names it shares pass through."""
    config = {key: value for key, value in properties.items() if key not in _JAVA_ONLY}
    jaas = config.pop("sasl.jaas.config", None)
    if jaas is not None:
        options = jaas_options(jaas)
        for option in ("username", "password"):
            if option in options:
                config.setdefault(f"sasl.{option}", options[option])
    store_types = {
        kind: properties.get(f"ssl.{kind}.type", "").upper() for kind in ("truststore", "keystore")
    }
    truststore = config.pop("ssl.truststore.location", None)
    config.pop("ssl.truststore.password", None)
    if truststore is not None:
        if store_types["truststore"] == "JKS" or truststore.endswith(".jks"):
            raise JobError(
                f"The truststore {truststore} is a Java keystore: export its certificates as PEM and "
                "name that file with ssl.ca.location."
            )
        config.setdefault("ssl.ca.location", truststore)
    keystore = config.get("ssl.keystore.location")
    if keystore is not None and store_types["keystore"] == "PEM":
        del config["ssl.keystore.location"]
        config.pop("ssl.keystore.password", None)
        config.setdefault("ssl.certificate.location", keystore)
        config.setdefault("ssl.key.location", keystore)
    for java, librdkafka in (
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ):
        if java in config:
            config[librdkafka] = config.pop(java)
    if properties.get("ssl.endpoint.identification.algorithm") == "":
        config["ssl.endpoint.identification.algorithm"] = "none"
    return config
