"""Runner for one pipeline in this process: starts its queries, publishes their state, and stops them on request."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ottla.jvm.java import NoJava
from ottla.spark.interruptible import interruptible_start
from ottla.spark.pipelines.failure import query_failed, start_failed
from ottla.spark.pipelines.loading import Starter, load
from ottla.spark.pipelines.query_progress import QueryProgress, missed_batches, query_progress
from ottla.spark.pipelines.state import (
    Phase,
    PipelineError,
    Pipelines,
    PipelineState,
    check_name,
    process_started,
)
from ottla.spark.queries import output_topics
from ottla.spark.shared_storage import NotShared, check_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

Report = Callable[[PipelineState], None]

_LOOK_EVERY = 0.5
_ONCE = 1.0

# Interval in milliseconds at which an idle query reports progress, so that its figures stay current.
_IDLE_PROGRESS = "5000"

# Time for a query to finish its current step.
_STOP_TIMEOUT = "20s"


@dataclass(frozen=True, slots=True)
class Plan:
    """Pipeline to run and its settings."""

    file: Path
    name: str
    master: str
    bootstrap_servers: str
    checkpoints: str
    trigger: str | None = None  # None: as fast as possible
    conf: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False

    @property
    def settings(self) -> dict[str, str]:
        settings = {
            "spark.sql.streaming.noDataProgressEventInterval": _IDLE_PROGRESS,
            "spark.sql.streaming.stopTimeout": _STOP_TIMEOUT,
            "spark.ottla.bootstrap.servers": self.bootstrap_servers,
            "spark.ottla.checkpoints": self.checkpoints,
        }
        if self.trigger is not None:
            settings["spark.ottla.trigger"] = self.trigger
        return {**settings, **self.conf}


class Stop:
    """Set by SIGTERM, SIGINT and SIGHUP. A second signal ends the process immediately."""

    _SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._asked_at = 0.0

    def listen(self) -> None:
        for number in self._SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if not self._asked.is_set():
            self._asked_at = time.monotonic()
            self._asked.set()
        # A signal to both the process and its group arrives twice, and counts once.
        elif time.monotonic() - self._asked_at > _ONCE:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def is_asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        return self._asked.wait(seconds)


def run(plan: Plan, pipelines: Pipelines, report: Report) -> PipelineState:
    """Run until the queries end or a signal arrives. Raises PipelineError if a query fails."""
    starter = load(plan.file)
    stop = Stop()
    with pipelines.claim(check_name(plan.name)):
        stop.listen()
        log = pipelines.log_file(plan.name)
        log.write_text("")
        state = _new_state(plan, log)

        def publish() -> None:
            pipelines.write(state)
            report(state)

        publish()
        try:
            state.phase = _run(plan, starter, state, stop, publish)
        except PipelineError as error:
            state.phase, state.error = Phase.FAILED, error.message
            raise
        except BaseException:
            state.phase, state.error = Phase.FAILED, f"The process that ran it broke; {log} may say why."
            raise
        finally:
            state.ended_at = time.time()
            state.queries = [query.ended() for query in state.queries]
            pipelines.write(state)
    return state


def _new_state(plan: Plan, log: Path) -> PipelineState:
    pid = os.getpid()
    return PipelineState(
        name=plan.name,
        pid=pid,
        pid_started=process_started(pid) or 0,
        file=str(plan.file.absolute()),
        master=plan.master,
        bootstrap_servers=plan.bootstrap_servers,
        checkpoints=plan.checkpoints,
        log=str(log),
        started_at=time.time(),
    )


def _run(
    plan: Plan, starter: Starter, state: PipelineState, stop: Stop, publish: Callable[[], None]
) -> Phase:
    with contextlib.nullcontext() if plan.verbose else _stderr_to(Path(state.log)):
        try:
            with interruptible_start(told=1):  # stderr goes to the log
                spark = _start_spark(plan, state.log)
        except (KeyboardInterrupt, SystemExit):
            return Phase.STOPPED
        stop.listen()  # PySpark has installed its own handler
        try:
            if stop.is_asked():
                return Phase.STOPPED
            queries = _start_queries(plan, starter, spark)
            state.phase = Phase.RUNNING
            return _follow(plan.name, queries, state, stop, publish)
        except _java_errors() as error:
            if stop.is_asked():  # Java received the signal too and ended first
                return Phase.STOPPED
            raise PipelineError(
                f"Pipeline '{plan.name}' failed: the Java that ran it has ended; {state.log} may say why.",
                repr(error),
            ) from error
        finally:
            _stop_spark(spark)


def _java_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of calls to a JVM that has ended."""
    from py4j.protocol import Py4JError

    return ConnectionError, Py4JError


def _start_spark(plan: Plan, log: str) -> SparkSession:
    from ottla.spark.session import session

    try:
        spark = session(plan.name, plan.master, plan.settings)
    except NoJava as error:
        raise PipelineError(str(error)) from None
    except Exception as error:
        failure = start_failed(plan.name, plan.file, error)
        raise PipelineError(f"{failure.message} {log} may say more.", failure.detail) from error
    return spark


def _start_queries(plan: Plan, starter: Starter, spark: SparkSession) -> list[StreamingQuery]:
    try:
        check_shared(spark, plan.checkpoints)
    except NotShared as error:
        raise PipelineError(error.message) from None
    try:
        return starter(spark, plan.bootstrap_servers)
    except PipelineError:
        raise
    except Exception as error:
        raise start_failed(plan.name, plan.file, error) from error


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect the stderr of this process and its JVM to a file, because stack traces do not belong on the terminal."""
    kept = os.dup(2)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _follow(
    pipeline: str,
    queries: list[StreamingQuery],
    state: PipelineState,
    stop: Stop,
    publish: Callable[[], None],
) -> Phase:
    names = [query.name or f"query-{number}" for number, query in enumerate(queries, 1)]
    seen: list[QueryProgress] | None = None
    before: dict[str, QueryProgress] = {}
    while True:
        # Check before reading the figures, so that the figures of the last batch are included.
        ended = not any(query.isActive for query in queries)
        state.queries = [
            _progress(name, query, before.get(name)) for name, query in zip(names, queries, strict=True)
        ]
        before = {each.name: each for each in state.queries}
        if state.queries != seen:
            seen = state.queries
            publish()
        for query_name, query in zip(names, queries, strict=True):
            error = query.exception()
            if error is not None:
                raise query_failed(pipeline, query_name, _current_batch(query), str(error))
        if ended:
            return Phase.FINISHED
        if stop.wait(_LOOK_EVERY):
            return Phase.STOPPED


def _progress(name: str, query: StreamingQuery, before: QueryProgress | None) -> QueryProgress:
    is_active, last = query.isActive, query.lastProgress
    progress = None if last is None else json.loads(last.json)
    if progress is not None and missed_batches(before, progress):
        # Several batches may have run since the last check.
        seen = -1 if before is None or before.batch is None else before.batch
        for each in (json.loads(each.json) for each in query.recentProgress):
            if seen < each["batchId"] < progress["batchId"]:
                before = query_progress(name, True, each, before)
    found = query_progress(name, is_active, progress, before)
    return replace(found, writes=found.writes or output_topics(query))


def _current_batch(query: StreamingQuery) -> int | None:
    """Return the current batch of a query, or None. This is not part of Spark's public interface."""
    try:
        return int(query._jsq.streamingQuery().getLatestExecutionContext().batchId())
    except Exception:
        return None


def _stop_spark(spark: SparkSession) -> None:
    """Stop all queries. Each ends between two steps of its batch, and the checkpoint stays authoritative."""
    with contextlib.suppress(Exception):
        for query in spark.streams.active:
            query.stop()
    with contextlib.suppress(Exception):
        spark.stop()
