"""Security of a ZooKeeper server: TLS with keys in PEM files, and users with DIGEST-MD5 logins."""

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
# Commands allowed to everyone before a login: they reveal no names.
_HARMLESS_WORDS = "ruok,srvr,mntr,isro"


@dataclass(frozen=True)
class ServerSecurity:
    """Security requirements of a server. `repr` hides them.

    With a `key_store`, a PEM file with private key and certificates, the server and its ensemble speak TLS only. A
    `trust_store`, a PEM file of authorities, verifies certificates of clients and other servers. `client_auth` requires
    client certificates (`need`), accepts them (`want`) or ignores them (`none`). With `users`, names and passwords,
    every client has to log in.
    """

    key_store: Path | None = field(default=None, repr=False)
    trust_store: Path | None = field(default=None, repr=False)
    client_auth: str = "none"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def uses_tls(self) -> bool:
        return self.key_store is not None

    # Server side

    def server_settings(self, *, in_ensemble: bool) -> dict[str, str]:
        """Return the lines of zoo.cfg, besides the ports."""
        settings = {}
        if self.key_store is not None:
            stores = {"keyStore.location": str(self.key_store.absolute()), "keyStore.type": "PEM"}
            if self.trust_store is not None:
                stores |= {"trustStore.location": str(self.trust_store.absolute()), "trustStore.type": "PEM"}
            settings["serverCnxnFactory"] = _NETTY_FACTORY
            settings["authProvider.x509"] = f"{_PROVIDERS}.X509AuthenticationProvider"
            settings["ssl.clientAuth"] = self.client_auth
            settings["ssl.enabledProtocols"] = _BOTH_VERSIONS
            # A client is identified by its certificate alone; the server does not know its host name.
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
        """Return the Java options. Writes the users to a file in the server's directory
        that only its owner can read.
        """
        options = []
        if self.uses_tls or self.users:
            options.append(f"-Dzookeeper.4lw.commands.whitelist={_HARMLESS_WORDS}")
        if self.users:
            users = {f"user_{name}": password for name, password in self.users.items()}
            file = write_jaas(directory / "jaas.conf", "Server", users)
            options.append(f"-Djava.security.auth.login.config={file}")
        return options

    def probe(self) -> ssl.SSLContext | None:
        """Return a context for checking whether a local server is up. It sends no secrets and trusts no answers."""
        if self.key_store is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self.client_auth != "none":
            with contextlib.suppress(OSError):  # another format, in which case the server does not answer
                context.load_cert_chain(self.key_store, password="")
        return context

    # Broker side

    def broker_settings(self, *, trust_store: Path, key_store: Path | None = None) -> dict[str, str]:
        """Return the settings of a broker, or of `zookeeper-shell -zk-tls-config-file`, for this server.

        `trust_store` has the authority of the server's certificate; `key_store` the broker's key for `client_auth`.
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
        """Return the environment of a broker logged in as `user`. Writes the password to `file`, readable by its owner
        only.
        """
        written = write_jaas(file, "Client", {"username": user, "password": self.users[user]})
        others = os.environ.get("KAFKA_OPTS", "")
        return {"KAFKA_OPTS": f"{others} -Djava.security.auth.login.config={written}".strip()}


def write_jaas(path: Path, section: str, options: Mapping[str, str]) -> Path:
    """Write a JAAS file with one ZooKeeper login module, atomically and readable by its owner only."""
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
