"""SQL server: one Spark session, its queries and the listeners."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.http import HttpServer
from ottla.http.authentication import Authenticate
from ottla.http.metrics import HttpMetrics
from ottla.monitoring.metrics.text import labels
from ottla.spark.pipelines.metrics import query_lines
from ottla.spark.pipelines.query_progress import QueryProgress, query_progress
from ottla.sql.executing.places import state_directory
from ottla.sql.server.commands import Commands
from ottla.sql.server.push_queries import PushQueries
from ottla.sql.server.query_log import QueryLog
from ottla.sql.server.routes import Api
from ottla.sql.server.supervisor import Supervisor
from ottla.sql.session import SqlSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("ottla.sql")

_THREADS = 64
_MAX_BODY = 16 * 1024 * 1024


@dataclass(frozen=True)
class Listener:
    host: str
    port: int
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"


class SqlServer:
    """`spark` creates the session on first use: for a statement, or for recovered queries."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        *,
        bootstrap_servers: str,
        listeners: Sequence[Listener] = (Listener("127.0.0.1", 8088),),
        service_id: str = "default_",
        checkpoints: str | None = None,
        properties: Mapping[str, str] | None = None,
        functions: Sequence[str] = (),
        authenticate: Authenticate | None = None,
        eager: bool = False,
        schema_registry: str | Mapping[str, str] | None = None,
        names: Sequence[str] = (),
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        # Separate from the checkpoints of shells, because a query lives in one place.
        place = checkpoints or str(state_directory() / "sql-server" / service_id)
        self.session = SqlSession(
            spark,
            bootstrap_servers=bootstrap_servers,
            checkpoints=place,
            properties=properties,
            functions=functions,
            schema_registry=schema_registry,
        )
        self.session.shared.paced = True
        self.session.shared.registry_is_fixed = True
        self.session.shared.defaults = dict(defaults or {})
        self._pushes = PushQueries()
        self._log = QueryLog(self.session.brokers, service_id)
        self.commands = Commands(self.session, self._log, self._pushes)
        self._supervisor = Supervisor(self.commands, self._spark_gone)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sql")
        self._api = Api(self.commands, self._pushes, self._pool, service_id, self._address)
        self.router = self._api.router()
        metrics = HttpMetrics("sql", self._query_lines)
        metrics.add_to(self.router)
        self._servers = [
            HttpServer(
                self.router,
                each.host,
                each.port,
                tls=each.tls,
                authenticate=authenticate,
                max_body=_MAX_BODY,
                metrics=metrics,
                names=names,
            )
            for each in listeners
        ]
        self._listeners = listeners
        self._eager = eager
        self._recovery: threading.Thread | None = None
        self.ended = asyncio.Event()
        self.has_failed = False  # the process should be restarted
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start listening and return; queries recover in the background. Raises OSError, SqlError."""
        self._loop = loop = asyncio.get_running_loop()
        self._api.on_terminate(self.ended.set)
        await loop.run_in_executor(self._pool, self.session.catalogue.refresh)
        for server in self._servers:
            await server.start()
        # Import before starting threads: the modules import each other, and a second thread could see half of them.
        import pyspark.sql  # noqa: F401

        self._recovery = threading.Thread(target=self._recover, name="sql-recovery", daemon=True)
        self._recovery.start()

    def _recover(self) -> None:
        try:
            self.commands.recover()
            if self._eager:
                _ = self.session.engine
        except Exception as error:
            logger.error("The queries of this server cannot be started: %s", error)
            self.commands.is_ready = True
        self._supervisor.start()

    async def _query_lines(self) -> list[str]:
        """Run in a thread, because each query is asked through Java."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: list(query_lines(self._progress())))

    def _progress(self) -> Iterator[tuple[str, QueryProgress]]:
        for running in self.session.queries.all():
            label = labels(query=running.query_id, sink=running.sink)
            last = None if running.query is None else running.query.lastProgress
            progress = None if last is None else json.loads(last.json)
            yield label, query_progress(running.query_id, running.is_active, progress)

    def _spark_gone(self) -> None:
        self.has_failed = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.ended.set)

    @property
    def urls(self) -> list[str]:
        return [
            f"{each.scheme}://{server.host}:{server.port}"
            for each, server in zip(self._listeners, self._servers, strict=True)
        ]

    def _address(self) -> str:
        return f"{self._servers[0].host}:{self._servers[0].port}"

    async def stop(self) -> None:
        """Stop all queries. The next start resumes them."""
        loop = asyncio.get_running_loop()
        self.commands.accepts = False
        for each in self._pushes.all():
            each.interrupt()
        for server in self._servers:
            await server.stop(2.0)
        await loop.run_in_executor(None, self._end)

    def _end(self) -> None:
        if self._recovery is not None:
            self._recovery.join(60)
        self._supervisor.stop()
        self._pushes.stop()
        self._pool.shutdown(wait=not self.has_failed, cancel_futures=True)
        if not self.has_failed:
            self.session.close()
