"""Supervision of a server's queries."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from ottla.sql.server.commands import Commands

logger = logging.getLogger("ottla.sql")


class Supervisor:
    """Restarts failed queries after 15 seconds, and doubles the delay each time, as ksqlDB does."""

    def __init__(
        self,
        commands: Commands,
        on_spark_gone: Callable[[], None],
        first: float = 15.0,
        longest: float = 900.0,
    ) -> None:
        self._commands = commands
        self._on_spark_gone = on_spark_gone
        self._first, self._longest = first, longest
        self._stop = threading.Event()
        self._due: dict[str, tuple[float, float]] = {}
        self._thread = threading.Thread(target=self._run, name="sql-supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(min(1.0, self._first)):
            if self._spark_is_gone():
                logger.critical("Java has ended, and Spark with it: the server ends, too.")
                self._on_spark_gone()
                return
            try:
                self.look()
            except Exception as error:  # Spark is shutting down, or a broker is unreachable
                logger.warning("Cannot look after queries: %s", error)

    def _spark_is_gone(self) -> bool:
        """Return True if Spark has ended: no query can run, and PySpark cannot start Java twice in a process."""
        session = self._commands.session
        if not session.uses_spark:
            return False
        gateway: Any = session.engine.spark.sparkContext._gateway
        process = getattr(gateway, "proc", None)
        return process is not None and process.poll() is not None

    def look(self) -> None:
        now = time.monotonic()
        queries = self._commands.session.queries
        for running in queries.all():
            if not running.has_failed:
                continue
            if self._is_due(running.query_id, now, running.state.removeprefix("ERROR: ")):
                with self._commands.lock:
                    if queries.get(running.query_id) is running and not self._stop.is_set():
                        queries.resume(running.query_id)
        if self._commands.not_started and self._is_due("", now, ""):
            self._commands.retry_not_started()

    def _is_due(self, query_id: str, now: float, reason: str) -> bool:
        due, wait = self._due.get(query_id, (0.0, 0.0))
        if due and now < due:
            return False
        if due:
            wait = min(wait * 2, self._longest)
            self._due[query_id] = (now + wait, wait)
            return True
        if reason:
            logger.error("The query %s has failed: %s", query_id, reason)
        self._due[query_id] = (now + self._first, self._first)
        return False
