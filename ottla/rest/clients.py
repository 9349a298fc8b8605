"""Connections to the cluster: the proxy's own, or with authentication.method=PROPAGATE each user's.

Reads and writes use aiokafka, which needs no threads, so that a thousand consumers can be open. Administration uses
`ottla.client` in threads.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ottla.client.cluster import Cluster, shared_cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Sasl, Settings
from ottla.http import HttpError, Request
from ottla.http.authentication import basic_credentials
from ottla.rest import errors
from ottla.rest.settings import RestSettings

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_ADMIN_THREADS = 16
_ENDING_SECONDS = 10.0
#: Idle time after which a user's connections are closed.
_IDLE_SECONDS = 600.0
_MAX_REQUEST_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Identity:
    """Owner of connections; without a user, the proxy itself."""

    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Identity({self.user!r})"


class Clients:
    """Owner: the event loop; threads only run functions of `ottla.client`, each with its own cluster."""

    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(_ADMIN_THREADS, "rest-admin")
        self._producers: dict[Identity, asyncio.Task[AIOKafkaProducer]] = {}
        self._used: dict[Identity, float] = {}
        self._cluster_ids: dict[Identity, str] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def identity(self, request: Request) -> Identity:
        if self._settings.authentication != "PROPAGATE":
            return Identity()
        credentials = basic_credentials(request.headers.get("authorization"))
        if credentials is None:
            raise HttpError(
                401, errors.UNAUTHENTICATED, "Unauthorized", {"WWW-Authenticate": 'Basic realm="kafka"'}
            )
        return Identity(*credentials)

    def settings(self, identity: Identity) -> Settings:
        found = self._settings.cluster
        if identity.user is None:
            return found
        mechanism = self._settings.properties.get("sasl.mechanism", "PLAIN")
        return replace(found, sasl=Sasl(mechanism, identity.user, identity.password or ""))

    async def admin(
        self,
        identity: Identity,
        function: Callable[Concatenate[Cluster, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Run a function of `ottla.client` in a thread. Refusals of the cluster become HttpErrors."""
        settings = self.settings(identity)

        def call() -> T:
            with shared_cluster(settings) as cluster:
                return function(cluster, *arguments, **options)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except ClientError as error:
            raise errors.of_client(error) from None

    async def cluster_id(self, identity: Identity) -> str:
        found = self._cluster_ids.get(identity)
        if found is None:
            metadata = await self.admin(identity, Cluster.metadata, [])
            found = self._cluster_ids[identity] = metadata.cluster_id or ""
        return found

    # Reading and writing

    async def producer(self, identity: Identity) -> AIOKafkaProducer:
        """Return the producer shared by all requests of an identity, started on first use."""
        self._used[identity] = time.monotonic()
        starting = self._producers.get(identity)
        if starting is None or (starting.done() and starting.exception() is not None):
            starting = self._producers[identity] = asyncio.create_task(self._start_producer(identity))
        return await asyncio.shield(starting)

    async def _start_producer(self, identity: Identity) -> AIOKafkaProducer:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            **self._connection(identity),
            enable_idempotence=True,
            acks="all",
            linger_ms=0,
            max_request_size=_MAX_REQUEST_BYTES,
            max_batch_size=_MAX_REQUEST_BYTES,
        )
        await self._start(identity, producer)
        return producer

    async def consumer(self, identity: Identity, **options: Any) -> AIOKafkaConsumer:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(**self._connection(identity), **options)
        await self._start(identity, consumer)
        return consumer

    async def _start(self, identity: Identity, client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
        from aiokafka.errors import KafkaError

        try:
            await client.start()
        except (KafkaError, OSError) as error:
            await self.end(client)
            # aiokafka reports only a failed connection; this request reveals the reason, such as a wrong password.
            await self.admin(identity, Cluster.metadata, [])
            raise of_aiokafka(error) from None
        except BaseException:
            self._ending.add(asyncio.create_task(_stop(client)))
            raise

    async def end(self, client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
        """Close a client completely, even if the waiting caller is cancelled: its connection may be gone."""
        task = asyncio.create_task(_stop(client))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        await asyncio.wait([task])

    def _connection(self, identity: Identity) -> dict[str, Any]:
        settings = self.settings(identity)
        options: dict[str, Any] = {
            "bootstrap_servers": settings.servers,
            "client_id": settings.client_id,
            "request_timeout_ms": int(settings.request_timeout * 1000),
        }
        protocol = "SSL" if settings.tls is not None else "PLAINTEXT"
        if settings.tls is not None:
            options["ssl_context"] = settings.tls.context()
        if settings.sasl is not None:
            protocol = f"SASL_{protocol}"
            options["sasl_mechanism"] = settings.sasl.mechanism
            options["sasl_plain_username"] = settings.sasl.username
            options["sasl_plain_password"] = settings.sasl.password
        return {**options, "security_protocol": protocol}

    async def close_idle(self) -> None:
        now = time.monotonic()
        for identity in [each for each, used in self._used.items() if now - used > _IDLE_SECONDS]:
            if identity.user is not None:
                del self._used[identity]
                await self._stop(self._producers.pop(identity, None))

    async def close(self) -> None:
        for starting in list(self._producers.values()):
            await self._stop(starting)
        self._producers.clear()
        if self._ending:
            await asyncio.wait(list(self._ending), timeout=_ENDING_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _stop(self, starting: asyncio.Task[AIOKafkaProducer] | None) -> None:
        if starting is None:
            return
        try:
            producer = await starting
        except HttpError:
            return
        await self.end(producer)


async def _stop(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    from aiokafka.errors import KafkaError

    try:
        await client.stop()
    except KafkaError as error:
        logger.warning("A connection to the cluster could not be ended as it should: %s", error)
    except asyncio.CancelledError:
        pass  # aiokafka's own tasks, cancelled before they started


@contextmanager
def kafka_errors() -> Iterator[None]:
    from aiokafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        raise of_aiokafka(error) from None


def of_aiokafka(error: Exception) -> HttpError:
    from ottla.client.errors import error_code

    number = getattr(error, "errno", None)
    code = error_code(number) if isinstance(number, int) and number > 0 else None
    message = str(error) or type(error).__name__
    return errors.of_code(code, message, retriable=bool(getattr(error, "retriable", False)) and code is None)
