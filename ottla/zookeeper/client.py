"""kazoo's client, extended with the operator's TLS settings and a built-in SASL login.

kazoo's own TLS trusts all system authorities besides the configured one, and does not check host names. Its SASL treats
a connection lost during login as a refusal, and never reconnects afterwards.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.serialization import SASL

from ottla.security.sasl import digest_md5
from ottla.security.sasl.exchange import AuthenticationFailed
from ottla.zookeeper.security import ZooKeeperSecurity, ZooKeeperTls

logger = logging.getLogger(__name__)


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
