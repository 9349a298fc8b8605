"""Users, logins and ACLs of test brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.security.acls import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

ADMIN = "admin"
PROTOCOLS = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")

_ADMIN_PASSWORD = "admin-secret"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_HOSTS = ("localhost", "127.0.0.1")


def acl(
    user: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    prefixed: bool = False,
    deny: bool = False,
    host: str = "*",
) -> Acl:
    """Build an ACL: `acl("ann", "READ", topic="orders")`. Without a resource it applies to the cluster."""
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
    }
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) > 1:
        raise ValueError("an ACL is about one resource: a topic, a group, a transactional id or the cluster")
    kind, name = given[0] if given else (ResourceType.CLUSTER, CLUSTER_NAME)
    return Acl(
        ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL),
        Entry(
            user if user.startswith("User:") else f"User:{user}",
            host,
            Operation[operation.upper()],
            Permission.DENY if deny else Permission.ALLOW,
        ),
    )


class BrokerSecurity:
    """Security of one broker, whose directory holds its certificates. The user admin may do everything."""

    def __init__(self, protocol: str, users: Mapping[str, str] | None, acls: Sequence[Acl] | None) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"security is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
        self.protocol = protocol
        self.acls = acls
        self.passwords = {ADMIN: _ADMIN_PASSWORD, **(users or {})}
        self._directory: Path | None = None

    def settings(self, directory: Path, port: int) -> dict[str, str]:
        """Return the broker's settings. Creates its certificates in the directory if missing."""
        self._directory = directory
        settings = {"listeners": f"{self.protocol}://127.0.0.1:{port}"}
        if self.protocol.startswith("SASL"):
            settings["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
        if self.protocol.endswith("SSL"):
            self._write_certificates()
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(directory / "server.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(directory / "ca.pem"),
            }
        if self.protocol == "SSL":
            settings |= {
                "ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            }
        if self.acls is not None:
            settings |= {"authorizer.class.name": _AUTHORIZER, "super.users": f"User:{ADMIN}"}
        return settings

    def initial_users(self) -> dict[str, dict[str, str]]:
        """Return the credentials of all users, by mechanism."""
        from ottla.security.sasl.scram import format_credential, new_credential

        if not self.protocol.startswith("SASL"):
            return {}
        return {
            user: {each: format_credential(new_credential(each, password)) for each in MECHANISMS}
            for user, password in self.passwords.items()
        }

    def client_config(self, user: str) -> dict[str, str]:
        """Return settings for confluent-kafka, with librdkafka's names."""
        config = {"security.protocol": self.protocol}
        self._check(user)
        if self.protocol.startswith("SASL"):
            config |= {
                "sasl.mechanism": MECHANISMS[0],
                "sasl.username": user,
                "sasl.password": self.passwords[user],
            }
        if self.protocol.endswith("SSL"):
            config["ssl.ca.location"] = str(self._file("ca.pem"))
        if self.protocol == "SSL":
            config |= {
                "ssl.certificate.location": str(self._file(f"{user}.pem")),
                "ssl.key.location": str(self._file(f"{user}.pem")),
            }
        return config

    def client_properties(self, user: str) -> dict[str, str]:
        properties = {"security.protocol": self.protocol}
        self._check(user)
        if self.protocol.startswith("SASL"):
            password = self.passwords[user].replace("\\", "\\\\").replace('"', '\\"')
            properties |= {
                "sasl.mechanism": MECHANISMS[0],
                "sasl.jaas.config": f'{_SCRAM_MODULE} required username="{user}" password="{password}";',
            }
        if self.protocol.endswith("SSL"):
            properties |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._file("ca.pem")),
            }
        if self.protocol == "SSL":
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._file(f"{user}.pem")),
            }
        return properties

    def store_acls(self, bootstrap_servers: str, mechanism: str | None = None) -> None:
        """Create the ACLs over the wire, like an admin tool."""
        if not self.acls:
            return
        from ottla.client.admin.acls import create_acls

        with self._admin(bootstrap_servers, mechanism) as cluster:
            create_acls(cluster, self.acls)

    def add_acls(self, bootstrap_servers: str, acls: Sequence[Acl]) -> None:
        if self.acls is None:
            raise ValueError("The broker allows everything: start it with ACLs, even with an empty list.")
        from ottla.client.admin.acls import create_acls

        with self._admin(bootstrap_servers) as cluster:
            create_acls(cluster, acls)

    def add_user(self, bootstrap_servers: str, user: str, password: str) -> None:
        if not self.protocol.startswith("SASL"):
            raise ValueError(
                f"Users of {self.protocol} have certificates: give them to the broker at its start."
            )
        from ottla.client.admin.scram import Secret, alter_credentials

        with self._admin(bootstrap_servers) as cluster:
            alter_credentials(cluster, user, set_={each: Secret(password) for each in MECHANISMS})
        self.passwords[user] = password

    @contextmanager
    def _admin(self, bootstrap_servers: str, mechanism: str | None = None) -> Iterator[Cluster]:
        from ottla.client.cluster import Cluster
        from ottla.client.settings import Settings

        properties = {**self.client_config(ADMIN), "bootstrap.servers": bootstrap_servers}
        if mechanism is not None:
            properties["sasl.mechanism"] = mechanism
        cluster = Cluster(Settings.from_properties(properties))
        try:
            yield cluster
        finally:
            cluster.close()

    def _check(self, user: str) -> None:
        if user not in self.passwords:
            raise ValueError(f"there is no user {user!r}: give it to the broker as users={{{user!r}: …}}")

    def _file(self, name: str) -> Path:
        if self._directory is None:
            raise RuntimeError("the broker has not been started yet")
        return self._directory / name

    def _write_certificates(self) -> None:
        from ottla.security.certificates import make_authority

        if self._file("server.pem").exists():
            return
        authority = make_authority("Ottla test CA")
        issued = {"server": authority.issue("localhost", _HOSTS)}
        if self.protocol == "SSL":
            issued |= {user: authority.issue(user, client=True) for user in self.passwords}
        for name, each in issued.items():
            file = self._file(f"{name}.pem")
            file.touch(mode=0o600)
            file.write_bytes(each.key_pem + each.certificate_pem)
        self._file("ca.pem").write_bytes(authority.certificate_pem)


class ClusterSecurity:
    """Security of a cluster. Clients and brokers log in with PLAIN."""

    def __init__(self, protocol: str, users: Mapping[str, str] | None, acls: Sequence[Acl] | None) -> None:
        if protocol != "SASL_SSL":
            raise ValueError(f"security of a cluster is SASL_SSL, not {protocol!r}")
        self._of_one = BrokerSecurity(protocol, users, acls)
        self.protocol = protocol

    def settings(self, directory: Path, port: int, brokers: Sequence[int]) -> dict[str, str]:
        """Return one broker's settings. All brokers share a certificate, since they run on one machine."""
        directory.mkdir(parents=True, exist_ok=True)
        password = self._of_one.passwords[ADMIN]
        users = " ".join(f'user_{name}="{each}"' for name, each in self._of_one.passwords.items())
        jaas = f'{_PLAIN_MODULE} required username="{ADMIN}" password="{password}" {users};'
        listeners = [self.protocol, *(f"FROM_{each}" for each in brokers)]
        return {
            **self._of_one.settings(directory, port),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "inter.broker.listener.name": self.protocol,
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas for name in listeners},
        }

    def client_config(self, user: str) -> dict[str, str]:
        """Return settings for confluent-kafka, with librdkafka's names."""
        return {**self._of_one.client_config(user), "sasl.mechanism": "PLAIN"}

    def store_acls(self, bootstrap_servers: str) -> None:
        self._of_one.store_acls(bootstrap_servers, mechanism="PLAIN")
