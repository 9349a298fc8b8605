"""A plain blocking connection to one broker, for the few APIs that confluent-kafka does not offer.

It speaks with the messages of `ottla.protocol`, over PLAINTEXT, TLS and SASL.
"""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.protocol.codec import Request, Response

R = TypeVar("R", bound="Response")

_CLIENT_ID = b"ottla-cli"


class Connection:
    """One request at a time, in the newest version that both sides know."""

    def __init__(self, client: Client, host: str, port: int) -> None:
        self._where = f"{host}:{port}"
        self._correlation_id = 0
        protocol = client.properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise JobError(
                f"The client configuration is not valid: there is no security.protocol {protocol}."
            )
        try:
            self._socket = socket.create_connection((host, port), timeout=client.timeout)
            if protocol.endswith("SSL"):
                self._socket = _tls(client).wrap_socket(self._socket, server_hostname=host)
        except socket.gaierror:
            raise BrokerUnreachable(f"Cannot reach a broker at {self._where}: no such host name.") from None
        except ssl.SSLError as error:
            raise BrokerUnreachable(
                f"Cannot reach a broker at {self._where} over TLS: {error.reason or error}."
            ) from None
        except OSError as error:
            raise BrokerUnreachable(f"Cannot reach the broker at {self._where}: {error}.") from None
        self._versions: dict[int, tuple[int, int]] | None = None
        if protocol.startswith("SASL"):
            self._authenticate(client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def _authenticate(self, client: Client) -> None:
        from ottla.cli.sasl import exchange
        from ottla.protocol.messages import sasl_authenticate, sasl_handshake

        properties = client.properties
        mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
        offered = self._exchange(
            sasl_handshake.SaslHandshakeRequest(mechanism=mechanism), 1, sasl_handshake.SaslHandshakeResponse
        )
        reason = "" if not offered.error_code else f"it does not offer {mechanism}"
        steps = exchange(mechanism, properties.get("sasl.username", ""), properties.get("sasl.password", ""))
        token = next(steps)
        while not reason:
            answer = self._exchange(
                sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token),
                0,
                sasl_authenticate.SaslAuthenticateResponse,
            )
            if answer.error_code:
                reason = (answer.error_message or "wrong user name or password").rstrip(".")
                break
            try:
                token = steps.send(bytes(answer.auth_bytes))
            except StopIteration:
                return
        raise BrokerUnreachable(f"The broker at {self._where} refused the credentials: {reason}.")

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """Lowest and highest version of each API that the broker knows."""
        if self._versions is None:
            answer = self._exchange(ApiVersionsRequest(), 0, ApiVersionsResponse)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return self._versions

    def request(self, request: Request, response_type: type[R]) -> R:
        lowest, highest = self.versions.get(request.api_key, (0, -1))
        version = min(highest, request.versions[1])
        if version < max(lowest, request.versions[0]):
            name = type(request).__name__.removesuffix("Request")
            raise JobError(f"The broker at {self._where} does not support {name}.", "UNSUPPORTED_VERSION")
        return self._exchange(request, version, response_type)

    def _exchange(self, request: Request, version: int, response_type: type[R]) -> R:
        self._correlation_id += 1
        header = struct.pack(">hhih", request.api_key, version, self._correlation_id, len(_CLIENT_ID))
        tags = b"\0" if request.header_version(version) == 2 else b""
        frame = header + _CLIENT_ID + tags + request.encode(version)
        try:
            self._socket.sendall(struct.pack(">i", len(frame)) + frame)
            [size] = struct.unpack(">i", self._read(4))
            answer = self._read(size)
        except OSError as error:
            raise BrokerUnreachable(f"Lost the connection to the broker at {self._where}: {error}.") from None
        # A flexible response header is followed by tagged fields; no broker sends any.
        position = 5 if response_type.header_version(version) == 1 else 4
        return response_type.decode(answer, version, position)

    def _read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionResetError("it was closed")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _tls(client: Client) -> ssl.SSLContext:
    properties = client.properties
    context = ssl.create_default_context(
        cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
    )
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    certificate = properties.get("ssl.certificate.location")
    if certificate is not None:
        context.load_cert_chain(
            certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password")
        )
    return context
