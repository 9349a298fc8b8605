"""HTTP server logins with users of the Kafka cluster.

A caller sends name and password (Basic). The server uses them to log in to a broker, so that only brokers verify
passwords, and asks for the caller's rights on the cluster. The ACLs on the CLUSTER resource decide the level:

    ALTER      admin: may change everything that the server manages
    DESCRIBE   viewer: may see it, without secrets
    neither    user: has only the rights that the server checks for each topic or subject

Super users of the cluster are admins. A changed password or ACL takes effect within ten seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from ottla.client.admin.acls import cluster_operations
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Sasl, Settings
from ottla.http.access import Access
from ottla.http.authentication import basic_credentials
from ottla.http.messages import HttpError, Request
from ottla.protocol.errors import ErrorCode
from ottla.security.acls import Operation
from ottla.security.principal import USER_TYPE, KafkaPrincipal

_REMEMBERED_SECONDS = 10.0
_MOST_REMEMBERED = 10_000
_THREADS = 4
# Concurrent logins at brokers. Guessing passwords must not exhaust the server's connections.
_MOST_WAITING = 64
_PATIENCE_SECONDS = 10.0
_WRONG_LOGIN = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE)


class _Login(NamedTuple):
    principal: KafkaPrincipal
    access: Access
    until: float


class KafkaLogin:
    """Authenticates requests. `settings` contain the cluster's address and the SASL mechanism, unless `mechanism` is
    given. The login in them is not used.

    Owner: the event loop. Threads wait for brokers.
    """

    def __init__(
        self, settings: Settings, *, mechanism: str = "", realm: str = "kafka", error_code: int = 40101
    ) -> None:
        self._settings = replace(
            settings,
            request_timeout=min(settings.request_timeout, _PATIENCE_SECONDS),
            api_timeout=min(settings.api_timeout, _PATIENCE_SECONDS),
        )
        inherited = "PLAIN" if settings.sasl is None else settings.sasl.mechanism
        self._mechanism = mechanism or inherited
        self._refusal = HttpError(
            401, error_code, "Unauthorized", {"WWW-Authenticate": f'Basic realm="{realm}"'}
        )
        self._secret = secrets.token_bytes(32)
        self._known: dict[bytes, _Login] = {}
        self._waiting: dict[bytes, asyncio.Task[_Login]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "login")

    def __call__(self, request: Request) -> KafkaPrincipal | Awaitable[KafkaPrincipal]:
        """Raises HttpError 401, and 503 if no broker answers."""
        credentials = basic_credentials(request.headers.get("authorization"))
        if credentials is None or not credentials[0]:
            raise self._unauthorized()
        key = hmac.digest(self._secret, "\0".join(credentials).encode(), hashlib.sha256)
        known = self._known.get(key)
        if known is not None and known.until > monotonic():
            request.access = known.access
            return known.principal
        return self._log_in(request, key, *credentials)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _unauthorized(self) -> HttpError:
        refusal = self._refusal
        return HttpError(refusal.status, refusal.error_code, refusal.message, refusal.headers)

    async def _log_in(self, request: Request, key: bytes, name: str, password: str) -> KafkaPrincipal:
        waiting = self._waiting.get(key)
        if waiting is None:
            if len(self._waiting) >= _MOST_WAITING:
                raise HttpError(503, 50301, "Too many logins at once. Try again.", {"Retry-After": "1"})
            waiting = self._waiting[key] = asyncio.create_task(self._ask(key, name, password))
            waiting.add_done_callback(lambda task: self._over(key, task))
        login = await asyncio.shield(waiting)
        request.access = login.access
        return login.principal

    def _over(self, key: bytes, task: asyncio.Task[_Login]) -> None:
        self._waiting.pop(key, None)
        if not task.cancelled():
            task.exception()  # every waiting caller gets it, but none may remain

    async def _ask(self, key: bytes, name: str, password: str) -> _Login:
        loop = asyncio.get_running_loop()
        try:
            access = await loop.run_in_executor(self._threads, self._access_of, name, password)
        except ClientError as error:
            self._known.pop(key, None)
            if error.code in _WRONG_LOGIN:
                raise self._unauthorized() from None
            raise HttpError(503, 50301, f"No broker can check the login: {error.message}") from None
        if len(self._known) >= _MOST_REMEMBERED:
            self._forget_old()
        login = _Login(KafkaPrincipal(USER_TYPE, name), access, monotonic() + _REMEMBERED_SECONDS)
        self._known[key] = login
        return login

    def _forget_old(self) -> None:
        now = monotonic()
        self._known = {key: login for key, login in self._known.items() if login.until > now}
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()

    def _access_of(self, name: str, password: str) -> Access:
        cluster = Cluster(replace(self._settings, sasl=Sasl(self._mechanism, name, password)))
        try:
            allowed = cluster_operations(cluster)
        finally:
            cluster.close()
        if Operation.ALTER in allowed:
            return Access.ADMIN
        return Access.VIEWER if Operation.DESCRIBE in allowed else Access.USER
