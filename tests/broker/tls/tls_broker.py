"""A broker with every kind of TLS listener, and the settings for its clients."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

from ottla.security.certificates import Authority, Issued, make_authority
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts

USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" user_ann="pencil";'
)
# Listener name → protocol
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "MUTUAL": "SSL", "SASL_SSL": "SASL_SSL"}
SASL_MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class TlsBroker:
    """`at` maps each listener to its address; MUTUAL requires client certificates."""

    def __init__(self, directory: Path, **config: str) -> None:
        self.directory = directory
        self.authority = make_authority()
        self.stranger = make_authority("Somebody Else's CA")
        self.ca_file = self.write("ca.pem", self.authority.certificate_pem)
        self.strangers_ca_file = self.write("stranger.pem", self.stranger.certificate_pem)
        self.key_store = self.issue("broker", "broker.pem", ["localhost", "127.0.0.1"])
        self.ann = self.issue("ann", "ann.pem")
        reserved = ReservedPorts(len(LISTENERS))
        self.ports = dict(zip(LISTENERS, reserved.numbers, strict=True))
        self.at = {name: f"localhost:{port}" for name, port in self.ports.items()}
        self.config = {
            "listeners": ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in LISTENERS.items()),
            "ssl.keystore.location": self.key_store,
            "ssl.truststore.location": self.ca_file,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U",
            "sasl.enabled.mechanisms": ",".join(SASL_MECHANISMS),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
            **config,
        }
        self.broker = Broker(data=directory / "data", config=self.config)

    def write(self, name: str, data: bytes) -> str:
        path = self.directory / name
        path.write_bytes(data)
        return str(path)

    def issue(
        self, name: str, file: str, hosts: list[str] | None = None, authority: Authority | None = None
    ) -> str:
        """Return a file with a new key and its certificate."""
        issued: Issued = (authority or self.authority).issue(name, hosts or [])
        return self.write(file, issued.certificate_pem + issued.key_pem)

    def client(self, listener: str, **more: Any) -> dict[str, Any]:
        """Return settings for librdkafka and for our client."""
        protocol = LISTENERS[listener]
        config = {
            "bootstrap.servers": self.at[listener],
            "security.protocol": protocol,
            "broker.address.family": "v4",
        }
        if protocol.endswith("SSL"):
            config["ssl.ca.location"] = self.ca_file
        return config | more

    def certificate(self, file: str | None = None) -> dict[str, str]:
        return {"ssl.certificate.location": file or self.ann, "ssl.key.location": file or self.ann}

    def context(self, certificate: str | None = None, ca_file: str | None = None) -> ssl.SSLContext:
        """Return an SSL context for Python clients."""
        context = ssl.create_default_context(cafile=ca_file or self.ca_file)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def principals(self, listener: str) -> set[str]:
        """Return the principals of the open connections."""

        async def find() -> set[str]:
            [found] = [each for each in self.broker._running()._listeners if each.name == listener]
            return {str(connection.principal) for connection in found.connections}

        return self.run(find())

    def run(self, work: Any) -> Any:
        assert self.broker._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.broker._loop).result()
