"""The broker under test, with a listener for every protocol, all mechanisms, an authorizer, and an admin."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from ottla.client.admin.acls import create_acls, delete_acls, describe_acls
from ottla.client.admin.offsets import latest_offsets
from ottla.client.admin.scram import Secret, alter_credentials, describe_credentials
from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.security.acls import AclFilter, PatternType, ResourceType
from ottla.security.certificates import make_authority
from ottla.security.jaas import ALLOWED_URLS
from ottla.testing import Broker, acl
from ottla.testing.ports import ReservedPorts
from tests.issuer import AUDIENCE, ISSUER, Issuer

from ..waiting import wait_for
from .kerberos import Realm
from .logins import MECHANISMS, WITHOUT_SASL, Login

USER, PASSWORD = "ann", "pencil"
ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
_SECURITY = "org.apache.kafka.common.security"
_PLAIN_JAAS = (
    f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}";'
)


class SecuredBroker:
    """Admin actions of the cases, and client settings for a successful or refused login."""

    def __init__(self, directory: Path, issuer: Issuer, stranger: Issuer, realm: Realm | None = None) -> None:
        self._directory = directory
        self._issuer, self._stranger, self._realm = issuer, stranger, realm
        issuer.clients[USER] = stranger.clients[USER] = PASSWORD
        self._reserved = ReservedPorts(len(LISTENERS) + 1)
        ports = dict(zip((*LISTENERS, "CONTROLLER"), self._reserved.numbers, strict=True))
        self._at = {name: f"localhost:{port}" for name, port in ports.items()}
        self._write_certificates()
        self._admin = Cluster(
            Settings.from_properties(
                {
                    "bootstrap.servers": self._at["SASL_PLAINTEXT"],
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": ADMIN,
                    "sasl.password": ADMIN_PASSWORD,
                }
            )
        )

    # Start

    @contextmanager
    def running(self, *, by_apache_kafka: bool = False) -> Iterator[None]:
        with ExitStack() as stack:
            if by_apache_kafka:
                stack.enter_context(self._apache_kafka())
            else:
                stack.enter_context(Broker(data=self._directory / "data", config=self._config(LISTENERS)))
            stack.callback(self._admin.close)
            self._add_scram_user()
            # librdkafka looks up the group even for a consumer without one, and reports a denial.
            create_acls(self._admin, [acl(user, "READ", group="*") for user in (USER, "ANONYMOUS")])
            yield

    def _apache_kafka(self) -> AbstractContextManager[object]:
        from bench.peers.apache_kafka import ApacheKafka

        listeners = {**LISTENERS, "CONTROLLER": "SSL"}
        config = self._config(listeners) | {
            "advertised.listeners": self._addresses(LISTENERS),
            "controller.quorum.voters": f"1@{self._at['CONTROLLER']}",
            "listener.name.controller.ssl.client.auth": "required",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            for mechanism in MECHANISMS:
                prefix = f"listener.name.{listener}.{mechanism.lower()}.sasl"
                if mechanism.startswith("SCRAM"):
                    config[f"{prefix}.jaas.config"] = f"{_SECURITY}.scram.ScramLoginModule required;"
                if mechanism == "OAUTHBEARER":
                    module = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
                    handler = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
                    config[f"{prefix}.jaas.config"] = f"{module} required;"
                    config[f"{prefix}.server.callback.handler.class"] = handler
        port = int(self._at["PLAINTEXT"].rpartition(":")[2])
        return ApacheKafka(port=port, data=self._directory / "kafka", config=config)

    def _config(self, listeners: dict[str, str]) -> dict[str, str]:
        config = {
            "listeners": self._addresses(listeners),
            "listener.security.protocol.map": ",".join(f"{name}:{of}" for name, of in listeners.items()),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:broker",
            "auto.create.topics.enable": "false",
            "connection.failed.authentication.delay.ms": "10",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._file("broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._file("ca.pem"),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(
                each for each in MECHANISMS if each != "GSSAPI" or self._realm is not None
            ),
            "sasl.oauthbearer.jwks.endpoint.url": self._issuer.jwks_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            ALLOWED_URLS: self._issuer.jwks_url,
            "sasl.kerberos.service.name": "kafka",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            config[f"{prefix}.plain.sasl.jaas.config"] = _PLAIN_JAAS
            if self._realm is not None:
                config[f"{prefix}.gssapi.sasl.jaas.config"] = (
                    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
                    f'keyTab="{self._realm.keytab("kafka")}" principal="kafka/localhost@{self._realm.name}";'
                )
        return config

    def java_options(self) -> str:
        """Return options for every JVM: allowed token and key URLs, and the KDC's location."""
        urls = (self._issuer.token_url, self._stranger.token_url, self._issuer.jwks_url)
        options = f"-D{ALLOWED_URLS}={','.join(urls)}"
        if self._realm is not None:
            options += f" -Djava.security.krb5.conf={os.environ['KRB5_CONFIG']}"
        return options

    def _addresses(self, listeners: dict[str, str]) -> str:
        return ",".join(f"{name}://{self._at[name]}" for name in listeners)

    def _file(self, name: str) -> str:
        return str(self._directory / name)

    def _write_certificates(self) -> None:
        authority, stranger = make_authority(), make_authority("Somebody Else's CA")
        issued = {
            "broker": authority.issue("broker", ["localhost", "127.0.0.1"]),
            "user": authority.issue(USER, client=True),
            "stranger": stranger.issue(USER, client=True),
        }
        for name, each in issued.items():
            Path(self._file(f"{name}.pem")).write_bytes(each.key_pem + each.certificate_pem)
        Path(self._file("ca.pem")).write_bytes(authority.certificate_pem)
        Path(self._file("strangers-ca.pem")).write_bytes(stranger.certificate_pem)

    def _add_scram_user(self) -> None:
        mechanisms = {each for each in MECHANISMS if each.startswith("SCRAM")}
        # One by one: Apache Kafka refuses to change two credentials of a user in one request.
        for each in mechanisms:
            alter_credentials(self._admin, USER, set_={each: Secret(PASSWORD)})

        def added() -> bool:
            found = describe_credentials(self._admin, [USER])
            return bool(found) and found[0].iterations.keys() == mechanisms

        wait_for(added, "the user has passwords")

    # Logins

    def login(self, name: str) -> Login:
        """Return a valid login of the user."""
        if name in WITHOUT_SASL:
            return Login(
                servers=self._at[name.upper()],
                principal=f"User:{USER if name == 'mTLS' else 'ANONYMOUS'}",
                protocol=LISTENERS[name.upper()],
                ca_file="" if name == "PLAINTEXT" else self._file("ca.pem"),
                certificate_file=self._file("user.pem") if name == "mTLS" else "",
            )
        protocol, mechanism = name.split()
        of_token = mechanism == "OAUTHBEARER"
        of_kerberos = mechanism == "GSSAPI"
        return Login(
            servers=self._at[protocol],
            principal=f"User:{USER}",
            protocol=protocol,
            mechanism=mechanism,
            ca_file=self._file("ca.pem") if protocol == "SASL_SSL" else "",
            username=USER,
            password="" if of_kerberos else PASSWORD,
            token_url=self._issuer.token_url if of_token else "",
            token=self._issuer.token(USER) if of_token else "",
            service_name="kafka" if of_kerberos else "",
            keytab=self._realm.keytab(USER) if of_kerberos and self._realm is not None else "",
        )

    def wrong_login(self, name: str) -> Login:
        """Return the login with a wrong proof of identity."""
        right = vars(self.login(name))
        if name == "SSL":
            # Without client authentication the client rejects the broker instead.
            return Login(**right | {"ca_file": self._file("strangers-ca.pem")})
        if name == "mTLS":
            return Login(**right | {"certificate_file": self._file("stranger.pem")})
        if right["mechanism"] == "OAUTHBEARER":
            # The same claims and key id, signed with another key.
            changes = {"token_url": self._stranger.token_url, "token": self._stranger.token(USER)}
            return Login(**right | changes)
        if right["mechanism"] == "GSSAPI":
            return Login(**right | {"service_name": "other"})  # a real ticket for another service
        return Login(**right | {"password": "wrong"})

    # Admin actions

    def make_topic(self, name: str) -> None:
        create_topic(self._admin, name, partitions=1, replication_factor=1)
        wait_for(lambda: self._is_served(name), f"{name} has a leader")

    def _is_served(self, name: str) -> bool:
        try:
            return self.end_offset(name) == 0
        except ClientError:
            return False

    def end_offset(self, topic: str) -> int:
        partition = TopicPartition(topic, 0)
        return latest_offsets(self._admin, [partition])[partition]

    def allow(self, principal: str, topic: str, *rights: str) -> None:
        user = principal.removeprefix("User:")
        create_acls(self._admin, [acl(user, right, topic=topic) for right in rights])
        wait_for(lambda: len(self._acls(topic)) == len(rights), "the rights are there")

    def take_away(self, topic: str) -> None:
        delete_acls(self._admin, [AclFilter(ResourceType.TOPIC, topic, PatternType.LITERAL)])
        # Apache Kafka responds before its brokers know of the change.
        wait_for(lambda: not self._acls(topic), "the rights are gone")

    def _acls(self, topic: str) -> list[object]:
        return list(describe_acls(self._admin, AclFilter(ResourceType.TOPIC, topic, PatternType.LITERAL)))
