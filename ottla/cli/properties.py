"""Client properties files as Kafka's tools read them, turned into librdkafka's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.client import needs_jaas
from ottla.cli.errors import JobError
from ottla.client.settings import jaas_options

if TYPE_CHECKING:
    from ottla.security.tls.settings import Given

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
    """Translate Kafka's names that librdkafka spells differently; others pass through."""
    config = {key: value for key, value in properties.items() if key not in _JAVA_ONLY}
    jaas = config.pop("sasl.jaas.config", None)
    if jaas is not None:
        options = jaas_options(jaas)
        if needs_jaas(config, options):
            config["sasl.jaas.config"] = jaas  # for our own client; `with_login` takes it away for librdkafka
        for option in ("username", "password"):
            if option in options:
                config.setdefault(f"sasl.{option}", options[option])
    _convert_stores(properties, config)
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


def _convert_stores(properties: dict[str, str], config: dict[str, str]) -> None:
    """Java's key store and trust store. librdkafka reads files in PEM; others become PEM in memory."""
    given = {
        name: config.pop(name)
        for store in ("truststore", "keystore")
        for name in (f"ssl.{store}.location", f"ssl.{store}.password")
        if name in config
    }
    if "ssl.truststore.location" in given:
        if _is_pem(properties, "truststore"):
            config.setdefault("ssl.ca.location", given["ssl.truststore.location"])
        else:
            config.setdefault("ssl.ca.pem", _trusted(given))
    if "ssl.keystore.location" in given:
        if _is_pem(properties, "keystore"):
            for name in ("ssl.certificate.location", "ssl.key.location"):
                config.setdefault(name, given["ssl.keystore.location"])
        else:
            certificate, key = _key_and_certificate(given, config.pop("ssl.key.password", None))
            config.setdefault("ssl.certificate.pem", certificate)
            config.setdefault("ssl.key.pem", key)


def _is_pem(properties: dict[str, str], store: str) -> bool:
    """Detect PEM by content; for unreadable files `ssl.….type` decides."""
    try:
        return b"-----BEGIN " in Path(properties[f"ssl.{store}.location"]).read_bytes()
    except OSError:
        return properties.get(f"ssl.{store}.type", "").upper() == "PEM"


def _trusted(given: dict[str, str]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    from ottla.security.tls.settings import StoreSettings, TlsError
    from ottla.security.tls.stores import read_trust_store

    settings = StoreSettings(
        truststore_location=_given(given, "ssl.truststore.location"),
        truststore_password=_given(given, "ssl.truststore.password"),
    )
    try:
        trusted = read_trust_store(settings) or []
    except TlsError as error:
        raise JobError(f"The client configuration is not valid: {error}") from None
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in trusted)


def _key_and_certificate(given: dict[str, str], key_password: str | None) -> tuple[str, str]:
    from ottla.security.tls.settings import Given, StoreSettings, TlsError
    from ottla.security.tls.stores import read_key_store

    settings = StoreSettings(
        keystore_location=_given(given, "ssl.keystore.location"),
        keystore_password=_given(given, "ssl.keystore.password"),
        key_password=None if key_password is None else Given("ssl.key.password", key_password),
    )
    try:
        store = read_key_store(settings)
    except TlsError as error:
        raise JobError(f"The client configuration is not valid: {error}") from None
    assert store is not None
    return store.chain_pem.decode(), store.key_pem().decode()


def _given(given: dict[str, str], name: str) -> Given | None:
    from ottla.security.tls.settings import Given

    return Given(name, given[name]) if given.get(name) else None
