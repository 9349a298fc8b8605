"""What is needed to reach ZooKeeper's servers, from Kafka's settings `zookeeper.…` and a JAAS file.

As for Kafka, options of Java in KAFKA_OPTS count as well: `-Djava.security.auth.login.config=FILE` names the JAAS file,
and ZooKeeper's own `-Dzookeeper.ssl.…` stand in for settings that are not given.
"""

from __future__ import annotations

import os
import shlex
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.security.jaas import BadJaas, parse_file
from ottla.security.sasl import digest_md5

NETTY_SOCKET = "org.apache.zookeeper.ClientCnxnSocketNetty"

# Setting of Kafka → the option of Java that it overrides.
JAVA_OPTIONS = {
    "zookeeper.ssl.client.enable": "zookeeper.client.secure",
    "zookeeper.clientCnxnSocket": "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.keystore.location": "zookeeper.ssl.keyStore.location",
    "zookeeper.ssl.keystore.password": "zookeeper.ssl.keyStore.password",
    "zookeeper.ssl.keystore.type": "zookeeper.ssl.keyStore.type",
    "zookeeper.ssl.truststore.location": "zookeeper.ssl.trustStore.location",
    "zookeeper.ssl.truststore.password": "zookeeper.ssl.trustStore.password",
    "zookeeper.ssl.truststore.type": "zookeeper.ssl.trustStore.type",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols": "zookeeper.ssl.enabledProtocols",
    "zookeeper.ssl.cipher.suites": "zookeeper.ssl.ciphersuites",
    "zookeeper.ssl.endpoint.identification.algorithm": "zookeeper.ssl.hostnameVerification",
    "zookeeper.ssl.crl.enable": "zookeeper.ssl.crl",
    "zookeeper.ssl.ocsp.enable": "zookeeper.ssl.ocsp",
}
_LOGIN_FILE = "java.security.auth.login.config"
_LOGIN_SWITCH = "zookeeper.sasl.client"
_LOGIN_SECTION = "zookeeper.sasl.clientconfig"
_STORE_TYPES = ("JKS", "PKCS12", "PEM")
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class BadSecurity(Exception):
    """What is wrong with a setting, as one sentence that names it."""


class ZooKeeperLogin(NamedTuple):
    username: str
    password: str

    def __repr__(self) -> str:
        return f"ZooKeeperLogin({self.username!r})"


class ZooKeeperSecurity(NamedTuple):
    tls: ssl.SSLContext | None = None
    has_certificate: bool = False  # of our own, by which the servers know us
    login: ZooKeeperLogin | None = None

    @property
    def is_known(self) -> bool:
        """Whether the servers learn who we are, so that nodes can be ours."""
        return self.login is not None or self.has_certificate


def zookeeper_security(
    settings: Mapping[str, str | None], environment: Mapping[str, str] = os.environ
) -> ZooKeeperSecurity:
    """`settings` have Kafka's names, or ZooKeeper's; those that are missing or None are not set. Raises BadSecurity."""
    options = java_options(environment)
    values = {}
    for name, option in JAVA_OPTIONS.items():
        value = next(
            (
                each
                for each in (settings.get(name), settings.get(option), options.get(option))
                if each is not None
            ),
            None,
        )
        if value is not None:
            values[name] = value
    login = _login(options)
    if values.get("zookeeper.ssl.client.enable", "false").strip().lower() != "true":
        return ZooKeeperSecurity(login=login)
    return ZooKeeperSecurity(_tls_context(values), bool(values.get("zookeeper.ssl.keystore.location")), login)


def java_options(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The system properties that KAFKA_OPTS sets: `-Dname=value`."""
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError as error:
        raise BadSecurity(f"KAFKA_OPTS cannot be read: {error}.") from None
    pairs = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}


# The login


def _login(options: Mapping[str, str]) -> ZooKeeperLogin | None:
    """Of the section `Client` of the JAAS file; None without one."""
    name = options.get(_LOGIN_FILE)
    if not name or options.get(_LOGIN_SWITCH, "true").lower() == "false":
        return None
    section = options.get(_LOGIN_SECTION, "Client")
    try:
        found = parse_file(Path(name.removeprefix("file:")).read_text()).get(section)
    except OSError as error:
        raise BadSecurity(
            f"Cannot read {name}, which KAFKA_OPTS names as {_LOGIN_FILE}: {error.strerror}."
        ) from None
    except (BadJaas, UnicodeDecodeError) as error:
        raise BadSecurity(f"{name}: {error}.") from None
    if not found:
        return None
    module, *more = found
    if more:
        raise BadSecurity(f"{name}: section {section} has more than one login module.")
    if digest_md5.MECHANISM not in module.mechanisms:
        raise BadSecurity(
            f"{name}: section {section} names a login module of {' and '.join(module.mechanisms)}; brokers log in to "
            "ZooKeeper with org.apache.zookeeper.server.auth.DigestLoginModule."
        )
    for option in ("username", "password"):
        if not module.options.get(option):
            raise BadSecurity(f"{name}: section {section} has no {option}.")
    return ZooKeeperLogin(module.options["username"], module.options["password"])


# TLS


def _tls_context(values: Mapping[str, str]) -> ssl.SSLContext:
    if values.get("zookeeper.clientCnxnSocket", NETTY_SOCKET).endswith("ClientCnxnSocketNIO"):
        raise BadSecurity(
            f"zookeeper.clientCnxnSocket names a socket that cannot speak TLS: set it to {NETTY_SOCKET}."
        )
    for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if values.get(name, "false").strip().lower() == "true":
            raise BadSecurity(
                f"{name} is set, but whether a certificate was revoked is not looked up: remove it."
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = _checks_host_names(values)
    context.verify_mode = ssl.CERT_REQUIRED
    _set_versions(context, values)
    _set_ciphers(context, values)
    _trust(context, values)
    _take_key(context, values)
    return context


def _checks_host_names(values: Mapping[str, str]) -> bool:
    name = "zookeeper.ssl.endpoint.identification.algorithm"
    algorithm = values.get(name, "https").strip().lower()
    if algorithm in ("https", "true"):
        return True
    if algorithm in ("", "false"):
        return False
    raise BadSecurity(f"{name} cannot be '{algorithm}'; give https, or nothing to check no host names.")


def _set_versions(context: ssl.SSLContext, values: Mapping[str, str]) -> None:
    name = "zookeeper.ssl.enabled.protocols"
    text = values.get(name)
    if not text:
        name = "zookeeper.ssl.protocol"
        text = values.get(name) or "TLSv1.2"
    versions = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in versions if each not in _VERSIONS]
    if unknown or not versions:
        raise BadSecurity(f"{name} cannot be '{text}'; give {' or '.join(_VERSIONS)}, or both with a comma.")
    context.minimum_version = min(_VERSIONS[each] for each in versions)
    context.maximum_version = max(_VERSIONS[each] for each in versions)


def _set_ciphers(context: ssl.SSLContext, values: Mapping[str, str]) -> None:
    name = "zookeeper.ssl.cipher.suites"
    suites = [each.strip() for each in values.get(name, "").split(",") if each.strip()]
    if not suites:
        return
    try:
        context.set_ciphers(":".join(suites))
    except ssl.SSLError:
        raise BadSecurity(f"{name} names no cipher suite that is known.") from None


def _check_type(values: Mapping[str, str], name: str) -> None:
    if (values.get(name) or "PEM").upper() not in _STORE_TYPES:
        raise BadSecurity(f"{name} cannot be '{values[name]}'; give {', '.join(_STORE_TYPES)}.")


def _trust(context: ssl.SSLContext, values: Mapping[str, str]) -> None:
    _check_type(values, "zookeeper.ssl.truststore.type")
    name = "zookeeper.ssl.truststore.location"
    location = values.get(name)
    if not location:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(location)
    except ssl.SSLError:
        raise BadSecurity(f"{name}: {location} has no certificate in it that can be read.") from None
    except OSError as error:
        raise BadSecurity(f"{name}: cannot read {location}: {error.strerror}.") from None


def _take_key(context: ssl.SSLContext, values: Mapping[str, str]) -> None:
    _check_type(values, "zookeeper.ssl.keystore.type")
    name = "zookeeper.ssl.keystore.location"
    location = values.get(name)
    if not location:
        return
    password = values.get("zookeeper.ssl.keystore.password", "")
    try:
        # A callable: OpenSSL would ask at the terminal for a password that is not given.
        context.load_cert_chain(location, password=lambda: password)
    except ssl.SSLError:
        raise BadSecurity(
            f"{name}: {location} has no key and certificate that fit each other and open with "
            "zookeeper.ssl.keystore.password."
        ) from None
    except OSError as error:
        raise BadSecurity(f"{name}: cannot read {location}: {error.strerror}.") from None
