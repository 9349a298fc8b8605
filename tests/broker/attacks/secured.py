"""A broker that requires authentication, and raw connections to it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.protocol.codec import Request
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts

PASSWORD = "pencil-1f0c"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OWN_JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN_MODULE} required user_ann="{PASSWORD}" user_bob="{PASSWORD}";'


class Secured:
    """A broker with two listeners: one that requires a login, and an open one for the test itself."""

    def __init__(self, data: Path, **config: str) -> None:
        plain, self.port = ReservedPorts(2).numbers
        self.open, self.sasl = f"127.0.0.1:{plain}", f"127.0.0.1:{self.port}"
        self.broker = Broker(
            data=data,
            config={
                "listeners": f"PLAINTEXT://{self.open},SASL_PLAINTEXT://{self.sasl}",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "connection.failed.authentication.delay.ms": "10",
                OWN_JAAS: JAAS,
                **config,
            },
        )

    def __enter__(self) -> Self:
        self.broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.broker.stop()

    def put_user(self, name: str, password: str = PASSWORD) -> None:
        admin = AdminClient({"bootstrap.servers": self.open})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(
                name, ScramCredentialInfo(mechanism, 4096), password.encode()
            )
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result(30)

    def delete_user(self, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.open})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialDeletion(name, mechanism)
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result(30)

    def log_in(self, mechanism: str, user: str, password: str = PASSWORD) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        Cluster(Settings.from_properties(settings)).any_connection().close()

    def answers(self, frames: Sequence[bytes], *, leave: bool = False) -> list[bytes]:
        """Send all frames at once and return everything received before the broker closes the connection.

        With `leave` the client closes its sending side, so the broker need not wait for more input.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as raw:
            try:
                raw.sendall(b"".join(frames))
                if leave:
                    raw.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the broker has already closed the connection
            received = b""
            try:
                while chunk := raw.recv(65536):
                    received += chunk
            except ConnectionResetError:
                pass
        found = []
        while received:
            [size] = struct.unpack_from(">i", received)
            found.append(received[4 : 4 + size])
            received = received[4 + size :]
        return found


def frame(request: Request, version: int, correlation_id: int = 1) -> bytes:
    header = struct.pack(">hhih", request.api_key, version, correlation_id, -1)
    if request.is_flexible(version):
        header += b"\0"
    return framed(header + request.encode(version))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body
