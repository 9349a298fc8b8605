"""How a ZooKeeper server is protected: TLS with keys in PEM files, and users who log in with DIGEST-MD5."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NETTY_FACTORY = "org.apache.zookeeper.server.NettyServerCnxnFactory"
_NETTY_SOCKET = "org.apache.zookeeper.ClientCnxnSocketNetty"
_PROVIDERS = "org.apache.zookeeper.server.auth"
_DIGEST_MODULE = f"{_PROVIDERS}.DigestLoginModule"
_BOTH_VERSIONS = "TLSv1.2,TLSv1.3"
# Everybody who reaches the port may ask these, before any login: they tell no names.
_HARMLESS_WORDS = "ruok,srvr,mntr,isro"


@dataclass(frozen=True)
class ServerSecurity:
    """What a server asks of its clients. Nothing of it is shown by `repr`.

    With a `key_store`, a PEM file with the private key and its certificates, the server speaks TLS only, and so do the
    servers of an ensemble among each other. A `trust_store`, a PEM file of authorities, is for the certificates of
    clients and of other servers; `client_auth` says whether clients `need` one, may show one (`want`), or are not asked
    (`none`). With `users`, names and passwords, nobody is served before logging in.
    """

    key_store: Path | None = field(default=None, repr=False)
    trust_store: Path | None = field(default=None, repr=False)
    client_auth: str = "none"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def uses_tls(self) -> bool:
        return self.key_store is not None

    # The server's side

    def server_settings(self, *, in_ensemble: bool) -> dict[str, str]:
        """Lines of zoo.cfg, besides the ports."""
        settings = {}
        if self.key_store is not None:
            stores = {"keyStore.location": str(self.key_store.absolute()), "keyStore.type": "PEM"}
            if self.trust_store is not None:
                stores |= {"trustStore.location": str(self.trust_store.absolute()), "trustStore.type": "PEM"}
            settings["serverCnxnFactory"] = _NETTY_FACTORY
            settings["authProvider.x509"] = f"{_PROVIDERS}.X509AuthenticationProvider"
            settings["ssl.clientAuth"] = self.client_auth
            settings["ssl.enabledProtocols"] = _BOTH_VERSIONS
            # Who a client is, its certificate says; under which name it connects from is not known to it.
            settings["ssl.clientHostnameVerification"] = "false"
            settings |= {f"ssl.{name}": value for name, value in stores.items()}
            if in_ensemble:
                settings["sslQuorum"] = "true"
                settings["ssl.quorum.enabledProtocols"] = _BOTH_VERSIONS
                settings |= {f"ssl.quorum.{name}": value for name, value in stores.items()}
        if self.users:
            settings["authProvider.sasl"] = f"{_PROVIDERS}.SASLAuthenticationProvider"
            settings["enforce.auth.enabled"] = "true"
            settings["enforce.auth.schemes"] = "sasl"
        return settings

    def jvm_options(self, directory: Path) -> list[str]:
        """Options of Java; the users are written to a file in the server's directory that its owner alone can read."""
        options = []
        if self.uses_tls or self.users:
            options.append(f"-Dzookeeper.4lw.commands.whitelist={_HARMLESS_WORDS}")
        if self.users:
            users = {f"user_{name}": password for name, password in self.users.items()}
            file = write_jaas(directory / "jaas.conf", "Server", users)
            options.append(f"-Djava.security.auth.login.config={file}")
        return options

    def probe(self) -> ssl.SSLContext | None:
        """To ask a server that was just started here whether it serves. Nothing secret is sent, nothing is believed."""
        if self.key_store is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self.client_auth != "none":
            with contextlib.suppress(OSError):  # of another format: the server does not answer then
                context.load_cert_chain(self.key_store, password="")
        return context

    # The brokers' side

    def broker_settings(self, *, trust_store: Path, key_store: Path | None = None) -> dict[str, str]:
        """Settings of a broker, or of `zookeeper-shell -zk-tls-config-file`, that reach this server.

        `trust_store` has the authority of the server's certificate; `key_store`, with `client_auth`, the broker's key.
        """
        if not self.uses_tls:
            return {}
        settings = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": _NETTY_SOCKET,
            "zookeeper.ssl.enabled.protocols": _BOTH_VERSIONS,
            "zookeeper.ssl.truststore.location": str(trust_store.absolute()),
            "zookeeper.ssl.truststore.type": "PEM",
        }
        if key_store is not None:
            settings |= {
                "zookeeper.ssl.keystore.location": str(key_store.absolute()),
                "zookeeper.ssl.keystore.type": "PEM",
            }
        return settings

    def broker_environment(self, file: Path, user: str) -> dict[str, str]:
        """The environment of a broker that logs in as `user`; the password goes to `file`, for its owner alone."""
        written = write_jaas(file, "Client", {"username": user, "password": self.users[user]})
        others = os.environ.get("KAFKA_OPTS", "")
        return {"KAFKA_OPTS": f"{others} -Djava.security.auth.login.config={written}".strip()}


def write_jaas(path: Path, section: str, options: Mapping[str, str]) -> Path:
    """A JAAS file with one login module of ZooKeeper's. It appears complete, and readable by its owner only."""
    lines = [f"    {name}={_quoted(value)}" for name, value in options.items()]
    text = "\n".join([f"{section} {{", f"    {_DIGEST_MODULE} required", *lines]) + ";\n};\n"
    write_private(path, text)
    return path.absolute()


def write_private(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
