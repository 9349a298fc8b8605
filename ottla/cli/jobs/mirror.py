"""Run the flows of a mirror until Ctrl-C, with a line whenever one of them changes."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.errors import JobError
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    from ottla.mirror.copy_loop import CopyStatus
    from ottla.mirror.settings import FlowSettings

_LOOK_SECONDS = 0.5


def run_flows(
    read: Callable[[], Sequence[FlowSettings]], master: str | None = None, *, quiet: bool = False
) -> None:
    """`read` returns the flows. Their errors are reported before Spark starts."""
    if find_spec("pyspark") is None:
        raise JobError("Mirroring needs packages that are not installed: pip install 'ottla[spark]'.")
    from ottla.client.errors import ClientError

    try:
        flows = read()
    except ClientError as error:
        raise JobError(error.message) from None
    stopping = threading.Event()
    set_by_signals(stopping)
    log_to_stderr()
    from ottla.cli.commands.sql.sql import java_log, stderr_to
    from ottla.mirror.mirror_maker import MirrorMaker
    from ottla.mirror.spark_session import mirror_session
    from ottla.spark.interruptible import interruptible_start

    if not quiet:
        output.note("Starting Spark …")
    with interruptible_start(), stderr_to(java_log()):
        spark = mirror_session("ottla mirror", master)
    set_by_signals(stopping)
    spark.sparkContext.setLogLevel("OFF")
    maker = MirrorMaker(spark, flows)
    maker.start()
    if not quiet:
        click.secho("The mirror is running. Ctrl-C stops it.", fg="green", bold=True)
    shown: dict[str, tuple[str, str, int]] = {}
    while not stopping.wait(_LOOK_SECONDS):
        for status in maker.statuses():
            now = status.state, status.reason, len(status.topics)
            if shown.get(status.name) != now and not quiet:
                click.echo(_line(status))
            shown[status.name] = now
    maker.stop()
    spark.stop()
    if not quiet:
        click.echo("Stopped cleanly.")


def set_by_signals(stopping: threading.Event) -> None:
    """To be called again when Spark has started: PySpark's handler of Ctrl-C ends the main thread only, and the
    process would go on for ever."""
    for number in ending_signals(signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())


def _line(status: CopyStatus) -> str:
    if status.state == "FAILED":
        return f"{status.name}  {status.state}  {status.reason}"
    return f"{status.name}  {status.state}  {len(status.topics)} topics"


def log_to_stderr() -> None:
    """Log to the current stderr. While Spark starts, file descriptor 2 is Java's log."""
    handler = logging.StreamHandler(os.fdopen(os.dup(2), "w", buffering=1))
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
