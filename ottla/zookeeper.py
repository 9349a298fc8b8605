"""ZooKeeper connections: TLS settings, the SASL login of the client, and ACLs of nodes."""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.serialization import SASL
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from ottla.security.jaas import JAAS_FILE, BadJaas, parse_file, system_properties
from ottla.security.sasl import digest_md5
from ottla.security.sasl.plain import AuthenticationFailed
from ottla.security.tls.contexts import client_context
from ottla.security.tls.settings import Given, StoreSettings, TlsError, Versions
from ottla.security.tls.stores import read_key_store, read_trust_store

# Security settings for ZooKeeper connections, from Kafka's `zookeeper.…` settings and a JAAS file.
#
# As in Kafka, Java options in KAFKA_OPTS count as well: `-Djava.security.auth.login.config=FILE` names the
# JAAS file, and ZooKeeper's own `-Dzookeeper.ssl.…` provide missing settings. A setting can name the JAAS
# file, too.

logger = logging.getLogger(__name__)

NETTY_SOCKET = "org.apache.zookeeper.ClientCnxnSocketNetty"

# Kafka setting → Java option that it overrides.
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
_LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
_LOGIN_SWITCH = "zookeeper.sasl.client"
_LOGIN_SECTION = "zookeeper.sasl.clientconfig"
_STORE_TYPES = ("JKS", "PKCS12", "PEM")
_LISTENERS_NAME = re.compile(r"(?<![\w.])ssl\.(?=enabled|cipher)")
_DEFAULT_PROTOCOL = "TLSv1.2"


class BadSecurity(Exception):
    """An invalid setting. The message is one sentence that names it."""


class ZooKeeperLogin(NamedTuple):
    username: str
    password: str

    def __repr__(self) -> str:
        return f"ZooKeeperLogin({self.username!r})"


class ZooKeeperTls:
    """TLS settings. Replaced stores take effect with the next connection; broken ones change nothing.

    Owner: the connecting code, one connection at a time.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._files = [
            values[name]
            for name in ("zookeeper.ssl.keystore.location", "zookeeper.ssl.truststore.location")
            if values.get(name)
        ]
        self._stamps = self._read_stamps()
        self._context = _tls_context(self._values)

    @property
    def has_certificate(self) -> bool:
        return bool(self._values.get("zookeeper.ssl.keystore.location"))

    def context(self) -> ssl.SSLContext:
        stamps = self._read_stamps()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = _tls_context(self._values)
            except BadSecurity as error:
                logger.error("ZooKeeper is still reached with the stores of before: %s", error)
        return self._context

    def _read_stamps(self) -> list[tuple[int, int, int] | None]:
        stamps: list[tuple[int, int, int] | None] = []
        for file in self._files:
            try:
                found = os.stat(file)
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
            except OSError:
                stamps.append(None)
        return stamps


class ZooKeeperSecurity(NamedTuple):
    tls: ZooKeeperTls | None = None
    login: ZooKeeperLogin | None = None

    @property
    def is_known(self) -> bool:
        """True if the servers learn the client's identity, so that it can own nodes."""
        return self.login is not None or (self.tls is not None and self.tls.has_certificate)


def zookeeper_security(
    settings: Mapping[str, str | None], environment: Mapping[str, str] = os.environ
) -> ZooKeeperSecurity:
    """`settings` use Kafka's or ZooKeeper's names; missing ones and None are unset. Raises BadSecurity."""
    options = system_properties(environment)
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
    login = _login(settings.get(JAAS_FILE) or options.get(JAAS_FILE), options)
    if values.get("zookeeper.ssl.client.enable", "false").strip().lower() != "true":
        return ZooKeeperSecurity(login=login)
    return ZooKeeperSecurity(ZooKeeperTls(values), login)


# Login


def _login(file: str | None, options: Mapping[str, str]) -> ZooKeeperLogin | None:
    """Return the login in section `Client` of the JAAS file, or None."""
    # Java's -Dname==path means "this file only".
    name = unquote((file or "").removeprefix("=").removeprefix("file:"))
    if not name or options.get(_LOGIN_SWITCH, "true").lower() == "false":
        return None
    section = options.get(_LOGIN_SECTION, "Client")
    try:
        found = parse_file(Path(name).read_text()).get(section)
    except OSError as error:
        raise BadSecurity(f"Cannot read {name}, which {JAAS_FILE} names: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise BadSecurity(f"{name}, which {JAAS_FILE} names, is not UTF-8 text.") from None
    except BadJaas as error:
        raise BadSecurity(f"{name}: {error}.") from None
    if not found:
        return None
    module, *more = found
    if more:
        raise BadSecurity(f"{name}: section {section} has more than one login module.")
    if module.name != _LOGIN_MODULE:
        raise BadSecurity(
            f"{name}: section {section} names {module.name}; brokers log in to ZooKeeper with "
            f"{_LOGIN_MODULE}."
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
    for name in ("zookeeper.ssl.keystore.type", "zookeeper.ssl.truststore.type"):
        if (values.get(name) or "PEM").upper() not in _STORE_TYPES:
            raise BadSecurity(f"{name} cannot be '{values[name]}'; give {', '.join(_STORE_TYPES)}.")
    stores = StoreSettings(
        keystore_location=_given(values, "zookeeper.ssl.keystore.location"),
        keystore_password=_given(values, "zookeeper.ssl.keystore.password"),
        truststore_location=_given(values, "zookeeper.ssl.truststore.location"),
        truststore_password=_given(values, "zookeeper.ssl.truststore.password"),
    )
    try:
        return client_context(
            read_key_store(stores),
            read_trust_store(stores),
            _versions(values),
            check_host=_checks_host_names(values),
            source="zookeeper.ssl.keystore.location",
        )
    except TlsError as error:
        # Keep store names as given; rename versions and ciphers from the listener's settings.
        raise BadSecurity(_LISTENERS_NAME.sub(r"zookeeper.\g<0>", str(error))) from None


def _given(values: Mapping[str, str], name: str) -> Given | None:
    return Given(name, values[name]) if values.get(name) else None


def _versions(values: Mapping[str, str]) -> Versions:
    enabled = values.get("zookeeper.ssl.enabled.protocols") or values.get("zookeeper.ssl.protocol")
    return Versions(
        _names(enabled or _DEFAULT_PROTOCOL), _names(values.get("zookeeper.ssl.cipher.suites", ""))
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _checks_host_names(values: Mapping[str, str]) -> bool:
    name = "zookeeper.ssl.endpoint.identification.algorithm"
    algorithm = values.get(name, "https").strip().lower()
    if algorithm in ("https", "true"):
        return True
    if algorithm in ("", "false"):
        return False
    raise BadSecurity(f"{name} cannot be '{algorithm}'; give https, or nothing to check no host names.")


# kazoo's client, extended with the operator's TLS settings and a built-in SASL login.
#
# kazoo's own TLS trusts all system authorities besides the configured one, and does not check host names.
# Its SASL treats a connection lost during login as a refusal, and never reconnects afterwards.


class ZooKeeperClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """Connects with the given `security`. `trouble` describes the last failed attempt for a person.

    kazoo reports a connection before the login. Requests made in between are sent after the login.
    """

    def __init__(self, hosts: str, *, security: ZooKeeperSecurity, **options: Any) -> None:
        self.trouble: str | None = None
        # Outcome of the last login; None before the first one, if one is needed. A refusal is final.
        self.may_enter: bool | None = None if security.login is not None else True
        self._login_ended = threading.Event()
        if security.tls is not None:
            options["handler"] = _TlsHandler(self, security.tls)
        super().__init__(hosts, **options)
        self._security = security
        if security.login is not None:
            self._connection.sasl_options = {}  # kazoo logs in on each connection unless this is None
            self._connection._authenticate_with_sasl = self._log_in

    def _log_in(self, host: str, timeout: float) -> None:
        """Log in on a new connection, in kazoo's thread, before any request."""
        login = self._security.login
        assert login is not None
        exchange = digest_md5.log_in(login.username, login.password)
        token = next(exchange)
        xid = 0
        try:
            while True:
                xid += 1
                token = exchange.send(self._ask(token, xid, timeout))
        except StopIteration:
            self.trouble, self.may_enter = None, True
            self._login_ended.set()
        except AuthenticationFailed as error:
            self.trouble = f"the login of {login.username} at {host} failed: {error}"
            self.may_enter = False
            self._login_ended.set()
            logger.error("ZooKeeper: %s", self.trouble)
            # Not kazoo's AuthFailedError, after which it would never reconnect.
            raise ConnectionDropped(self.trouble) from None

    def wait_for_login(self, seconds: float) -> bool:
        """Wait for a required login to end. Return True if it succeeded."""
        if self.may_enter is None:
            self._login_ended.wait(seconds)
        return bool(self.may_enter)

    def _ask(self, token: bytes, xid: int, timeout: float) -> bytes:
        connection = self._connection
        connection._submit(SASL(token), timeout, xid)
        header, data, offset = connection._read_header(timeout)
        if header.xid != xid:
            raise ConnectionDropped("an answer to something else came during the login")
        if header.zxid > 0:
            self.last_zxid = header.zxid
        if header.err:
            raise AuthenticationFailed("wrong user or password")
        challenge, _ = SASL.deserialize(data, offset)
        return challenge or b""


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, client: ZooKeeperClient, tls: ZooKeeperTls) -> None:
        super().__init__()
        self._client = client
        self._tls = tls

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> ssl.SSLSocket:
        try:
            plain = socket.create_connection(address, timeout)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                return self._tls.context().wrap_socket(plain, server_hostname=hostname)
            except BaseException:
                plain.close()
                raise
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or str(error)
            self._client.trouble = f"TLS with {hostname}:{address[1]} failed: {reason}"
            logger.warning("ZooKeeper: %s", self._client.trouble)
            raise
        except OSError as error:
            self._client.trouble = f"{hostname}:{address[1]}: {error.strerror or error}"
            raise


# ZooKeeper node ACLs: Kafka's rules for `zookeeper.set.acl`.
#
# A node belongs to its creator, the user of the brokers. Everyone may read it, so that tools work without a password,
# unless it or its descendants contain secrets.

NodeAcls = Callable[[str], list[ACL]]

# Old consumers store their offsets here without logging in.
_OPEN = "/consumers"
# SCRAM credentials and their secret, broker passwords, delegation tokens. As in Kafka, these are prefixes.
_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens", "/ottla/scram_salt_secret")

# Top-level nodes of every cluster, including all nodes protected by Kafka or Ottla.
ROOTS = ("/admin", "/brokers", "/cluster", "/config", "/controller_epoch", "/isr_change_notification")
TOP = (
    *ROOTS,
    "/controller",
    "/delegation_token",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/migration",
    "/ottla",
)


def open_to_all(path: str) -> list[ACL]:
    return OPEN_ACL_UNSAFE  # type: ignore[no-any-return]


def owned_by_creator(path: str) -> list[ACL]:
    if path == _OPEN:
        return open_to_all(path)
    return list(CREATOR_ALL_ACL) if is_sensitive(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def is_sensitive(path: str) -> bool:
    return path.startswith(_SENSITIVE)
