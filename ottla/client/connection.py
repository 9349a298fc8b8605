"""One connection to a broker: login, requests in flight, responses."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from ottla.client.errors import BadAddress, ClientError, Unreachable, Unsupported
from ottla.client.settings import Sasl, Settings
from ottla.protocol.codec import MalformedMessage, Request, Response
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from ottla.security.sasl import gssapi, oauthbearer, plain, scram
from ottla.security.sasl.plain import AuthenticationFailed, ClientExchange

# The client's side of SASL, with errors for its operator.

MECHANISMS = (plain.MECHANISM, *scram.HASHES, oauthbearer.MECHANISM, gssapi.MECHANISM)


def exchange(sasl: Sasl, host: str = "") -> ClientExchange:
    if sasl.mechanism == plain.MECHANISM:
        return plain.log_in(sasl.username, sasl.password)
    if sasl.mechanism in scram.HASHES:
        return _with_client_errors(
            scram.log_in(sasl.mechanism, sasl.username, sasl.password, is_token=sasl.is_token),
            "The broker cannot be trusted",
        )
    if sasl.mechanism == oauthbearer.MECHANISM and sasl.oauth is not None:
        from ottla.security import oauth as oauth_tokens

        return _with_client_errors(oauth_tokens.log_in(sasl.oauth), "Cannot log in")
    if sasl.mechanism == gssapi.MECHANISM and sasl.kerberos is not None:
        kerberos = sasl.kerberos
        return _with_client_errors(
            gssapi.log_in(kerberos.service, host, kerberos.principal, kerberos.keytab),
            "Cannot log in with Kerberos",
        )
    raise Unsupported(
        f"The SASL mechanism {sasl.mechanism} is not supported here: use one of {', '.join(MECHANISMS)}.",
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    )


def _with_client_errors(steps: ClientExchange, trouble: str) -> ClientExchange:
    try:
        yield from steps
    except AuthenticationFailed as failure:
        raise ClientError(f"{trouble}: {failure}.", ErrorCode.SASL_AUTHENTICATION_FAILED) from None


# A blocking connection to one broker.
#
# It uses the messages of `ottla.protocol` over PLAINTEXT, TLS and SASL, in the newest version known to both sides.

R = TypeVar("R", bound=Response)

# Larger requests are sent in parts without copying; joining smaller ones is cheaper.
_SCATTER_FROM = 64 * 1024
_MOST_PARTS = 512  # per system call
_TLS_ALERT = b"\x15\x03"  # the beginning of a refusal, where the size of an answer is expected
_PROBE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Sent(Generic[R]):
    """A request with an unread response."""

    correlation_id: int
    version: int
    answer: type[R]


def _allocate(size: int) -> memoryview:
    return memoryview(bytearray(size))


class Connection:
    """A connection for use by one thread. Responses arrive in request order. A failure closes the connection.

    A caller may stop waiting for a response, for example because another broker failed. The next `receive` skips such a
    response.
    """

    def __init__(self, settings: Settings, host: str, port: int) -> None:
        self.where = f"{host}:{port}"
        self.is_open = False
        self._client_id = settings.client_id.encode()
        self._patience = settings.request_timeout
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] | None = None
        self._is_encrypted = settings.tls is not None
        self._sasl = settings.sasl
        self._address = (host, port)
        self._host = host
        self._unanswered = 0
        self._log_in_again_at: float | None = None  # for logins with a limited lifetime
        try:
            self._socket = _connect(settings, host, port)
        except socket.gaierror:
            raise BadAddress(
                f"Cannot reach a broker at {self.where}: the host name does not exist."
            ) from None
        except OSError as error:
            if settings.tls is not None:
                import ssl

                if isinstance(error, ssl.SSLError):
                    reason = _tls_reason(error)
                    raise BadAddress(f"Cannot reach a broker at {self.where} over TLS: {reason}.") from None
            raise Unreachable(f"Cannot reach the broker at {self.where}: {error}.") from None
        self.is_open = True
        if settings.sasl is not None:
            self._authenticate(settings.sasl)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_open = False
        self._socket.close()

    def check(self) -> bool:
        """Return False, and close the connection, if the broker has closed it, for example because it was idle."""
        if not self.is_open or self._unanswered:
            return self.is_open
        self._socket.setblocking(False)
        try:
            # A broker sends nothing unasked.
            self._socket.recv(1)
        except OSError as error:
            if isinstance(error, BlockingIOError) or "WantRead" in type(error).__name__:
                self._socket.settimeout(self._patience)
                return True
        self.close()
        return False

    def request(self, request: Request, answer: type[R], *, max_version: int | None = None) -> R:
        return self.receive(self.send(request, answer, max_version=max_version))

    def send(self, request: Request, answer: type[R], *, max_version: int | None = None) -> Sent[R]:
        version = self.version(request, max_version)
        is_due = self._log_in_again_at is not None and time.monotonic() >= self._log_in_again_at
        if is_due and not self._unanswered and self._sasl is not None:
            self._authenticate(self._sasl)
        return self._send(request, answer, version)

    def _authenticate(self, sasl: Sasl) -> None:
        try:
            self._log_in(sasl)
        except ClientError:
            self.close()
            raise

    def _log_in(self, sasl: Sasl) -> None:
        from ottla.protocol.messages import sasl as messages

        handshake = messages.SaslHandshakeRequest(mechanism=sasl.mechanism)
        offered = self.receive(self._send(handshake, messages.SaslHandshakeResponse, 1))
        if offered.error_code:
            raise self._refused(f"it does not offer {sasl.mechanism}")
        steps = exchange(sasl, self._host)
        token = next(steps)
        while True:
            request = messages.SaslAuthenticateRequest(auth_bytes=token)
            answer = self.receive(self._send(request, messages.SaslAuthenticateResponse, 1))
            if answer.error_code:
                raise self._refused((answer.error_message or "wrong user name or password").rstrip("."))
            try:
                token = steps.send(bytes(answer.auth_bytes))
            except StopIteration:
                break
        self._log_in_again_at = None
        if answer.session_lifetime_ms > 0:
            # As in Kafka's clients: early enough, and spread out over time.
            seconds = answer.session_lifetime_ms / 1000 * random.uniform(0.85, 0.95)
            self._log_in_again_at = time.monotonic() + seconds

    def _refused(self, reason: str) -> ClientError:
        return ClientError(
            f"The broker at {self.where} refused the credentials: {reason}.",
            ErrorCode.SASL_AUTHENTICATION_FAILED,
        )

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """Lowest and highest version of each API that the broker supports."""
        if self._versions is None:
            answer = self.receive(self._send(ApiVersionsRequest(), ApiVersionsResponse, 0))
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return self._versions

    def version(self, request: Request, max_version: int | None = None) -> int:
        lowest, highest = self.versions.get(request.api_key, (0, -1))
        version = min(highest, request.versions[1])
        if max_version is not None:
            version = min(version, max_version)
        if version < max(lowest, request.versions[0]):
            name = type(request).__name__.removesuffix("Request")
            raise ClientError(
                f"The broker at {self.where} does not support {name}.", ErrorCode.UNSUPPORTED_VERSION
            )
        return version

    def _send(self, request: Request, answer: type[R], version: int) -> Sent[R]:
        self._correlation_id += 1
        header = struct.pack(">hhih", request.api_key, version, self._correlation_id, len(self._client_id))
        tags = b"\0" if request.header_version(version) == 2 else b""
        parts: list[Any] = [b"", header + self._client_id + tags]
        request.encode_parts(version, parts.append)
        size = sum(map(len, parts))
        parts[0] = struct.pack(">i", size)
        try:
            if size < _SCATTER_FROM or self._is_encrypted:
                self._socket.sendall(b"".join(parts))
            else:
                self._send_scattered(parts)
        except OSError as error:
            raise self._lost(error) from None
        self._unanswered += 1
        return Sent(self._correlation_id, version, answer)

    def _send_scattered(self, parts: list[Any]) -> None:
        """Send without copying: a copy of megabytes of records would take as long as everything else."""
        left = [memoryview(part).cast("B") for part in parts if len(part)]
        while left:
            sent = self._socket.sendmsg(left[:_MOST_PARTS])
            while left and sent >= len(left[0]):
                sent -= len(left[0])
                left.pop(0)
            if sent:
                left[0] = left[0][sent:]

    def receive(self, sent: Sent[R], allocate: Callable[[int], memoryview] = _allocate) -> R:
        """Return the response, read into memory from `allocate`. Its records are views of that memory."""
        try:
            while True:
                try:
                    first = self._read(_allocate(4))
                    if not self._is_encrypted and bytes(first[:2]) == _TLS_ALERT:
                        raise ConnectionResetError("it expects TLS")
                    [size] = struct.unpack(">i", first)
                    data = self._read(allocate(size))
                except OSError as error:
                    raise self._lost(error) from None
                self._unanswered -= 1
                [correlation_id] = struct.unpack_from(">i", data)
                if not 0 < correlation_id < sent.correlation_id:
                    break
            if correlation_id != sent.correlation_id:
                raise MalformedMessage(f"answer {correlation_id} to request {sent.correlation_id}")
            # A flexible response header ends with tagged fields, which no broker sends.
            position = 5 if sent.answer.header_version(sent.version) == 1 else 4
            return sent.answer.decode(data, sent.version, position)
        except (MalformedMessage, struct.error) as error:
            self.close()
            raise ClientError(
                f"The server at {self.where} does not speak Kafka's protocol: {error}."
            ) from None

    def _read(self, data: memoryview) -> memoryview:
        left = data
        while left:
            count = self._socket.recv_into(left)
            if not count:
                raise ConnectionResetError("it was closed")
            left = left[count:]
        return data

    def _lost(self, error: OSError) -> ClientError:
        self.close()
        if self._is_encrypted and (alert := _alert(error)):
            # With TLS 1.3 a broker can refuse a certificate only after the client's handshake has succeeded.
            return BadAddress(f"Cannot reach a broker at {self.where} over TLS: {alert}.")
        if not self._is_encrypted and self._versions is None and _speaks_tls(self._address):
            return BadAddress(
                f"The broker at {self.where} expects TLS, and this client connects without it: write "
                "security.protocol=SSL or SASL_SSL, with ssl.truststore.location or ssl.ca.location, into a file and "
                "pass it with --command-config."
            )
        if isinstance(error, TimeoutError):
            return Unreachable(f"The broker at {self.where} did not answer within {self._patience:g} s.")
        return Unreachable(f"Lost the connection to the broker at {self.where}: {error}.")


def _speaks_tls(address: tuple[str, int]) -> bool:
    """Try a handshake, without looking at certificates: only the answer to the question counts."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout=_PROBE_SECONDS) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "_ALERT_" in (error.reason or "")  # TLS, but it wants more than this
    except OSError:
        return False


def _tls_reason(error: Any) -> str:
    if message := getattr(error, "verify_message", None):
        return f"its certificate is not accepted ({message.rstrip('.')})"
    if error.reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS there"
    return _alert(error) or str(error.reason or error)


def _alert(error: OSError) -> str | None:
    reason = getattr(error, "reason", None) or ""
    if "_ALERT_" not in reason:
        return None
    words = reason.partition("_ALERT_")[2].replace("_", " ").lower()
    if "certificate" in words or words == "unknown ca":
        return f"it does not accept our certificate ({words})"
    return f"it refused the handshake ({words})"


def _connect(settings: Settings, host: str, port: int) -> socket.socket:
    plain = socket.create_connection((host, port), timeout=settings.request_timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.tls is None:
            return plain
        return settings.tls.context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
