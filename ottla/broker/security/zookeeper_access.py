"""The broker's connection to ZooKeeper: TLS and login from its settings and JAAS file."""

from __future__ import annotations

from functools import partial

from kazoo.client import KazooClient

from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.stores.zookeeper import ZooKeeperStore
from ottla.security.jaas import JAAS_FILE
from ottla.zookeeper import JAVA_OPTIONS, BadSecurity, ZooKeeperClient, zookeeper_security


def zookeeper_store(config: BrokerConfig, connect: str) -> ZooKeeperStore:
    """Raises ConfigError naming the missing or invalid setting."""
    try:
        security = zookeeper_security({name: config.static.get(name) for name in (*JAVA_OPTIONS, JAAS_FILE)})
    except BadSecurity as error:
        raise ConfigError(str(error)) from None
    set_acl = config.get_bool("zookeeper.set.acl")
    if set_acl and not security.is_known:
        raise ConfigError(
            "zookeeper.set.acl is true, but ZooKeeper would not know this broker: name a JAAS file with a section "
            "Client in KAFKA_OPTS (-Djava.security.auth.login.config=FILE), or set zookeeper.ssl.client.enable, "
            "zookeeper.clientCnxnSocket and zookeeper.ssl.keystore.location."
        )
    session_ms = config.get_int("zookeeper.session.timeout.ms")
    connection_ms = config.get_optional_int("zookeeper.connection.timeout.ms")
    secured = security.tls is not None or security.login is not None
    return ZooKeeperStore(
        connect,
        session_timeout=session_ms / 1000,
        connection_timeout=(session_ms if connection_ms is None else connection_ms) / 1000,
        make_client=partial(ZooKeeperClient, security=security) if secured else KazooClient,
        set_acl=set_acl,
    )
