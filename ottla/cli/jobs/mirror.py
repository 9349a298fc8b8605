"""Running mirrors and mirror links from the command line."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.errors import JobError
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster, Topic
    from ottla.mirror.copy_loop import CopyStatus
    from ottla.mirror.link.settings import LinkSettings
    from ottla.mirror.link.topics import PartitionLag
    from ottla.mirror.settings import FlowSettings

# Run the flows of a mirror until Ctrl-C, with a line whenever one of them changes.

_LOOK_SECONDS = 0.5


def run_flows(
    read: Callable[[], Sequence[FlowSettings]],
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
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
        spark = mirror_session("ottla mirror", master, conf)
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


# What `ottla mirror link` does: all but `start` without Spark.

_LINK_LOOK_SECONDS = 0.2
Properties = Mapping[str, str]


@contextmanager
def _linked(properties: Properties, reverse: bool) -> Iterator[tuple[LinkSettings, Cluster, Cluster]]:
    """The link, its source and its target, which answers: without it there is nothing to say or to do."""
    from ottla.client.cluster import Cluster
    from ottla.mirror.link.settings import parse_link

    link = parse_link(properties, reverse=reverse)
    with (
        closing(Cluster(link.flow.source.settings)) as source,
        closing(Cluster(link.flow.target.settings)) as target,
    ):
        target.any_connection()
        yield link, source, target


def run_link(properties: Properties, master: str | None, conf: Mapping[str, str], *, reverse: bool) -> None:
    if find_spec("pyspark") is None:
        raise JobError("Mirroring needs packages that are not installed: pip install 'ottla[spark]'.")
    with _linked(properties, reverse) as (link, _, target):
        from ottla.mirror.link.append import check_target

        check_target(target.any_connection())
    from ottla.cli.commands.sql.sql import java_log, stderr_to
    from ottla.mirror.link.mover import LinkMover
    from ottla.mirror.spark_session import mirror_session
    from ottla.spark.interruptible import interruptible_start

    stopping = threading.Event()
    set_by_signals(stopping)
    log_to_stderr()
    output.note("Starting Spark …")
    with interruptible_start(), stderr_to(java_log()):
        spark = mirror_session("ottla mirror link", master, conf)
    set_by_signals(stopping)
    spark.sparkContext.setLogLevel("OFF")
    mover = LinkMover(spark, link)
    mover.start()
    click.secho(f"Link {link.name} copies {link.flow.name}. Ctrl-C stops it.", fg="green", bold=True)
    shown = None
    while not stopping.wait(_LINK_LOOK_SECONDS):
        status = mover.status
        now = status.state, status.reason, status.topics
        if now != shown:
            said = status.reason or f"{len(status.topics)} topics"
            click.echo(f"{link.name}  {status.state}  {said}")
        shown = now
    mover.stop()
    spark.stop()
    click.echo("Stopped cleanly.")


def show_status(properties: Properties, *, reverse: bool) -> None:
    from ottla.mirror.errors import Diverged
    from ottla.mirror.link.history import check_history
    from ottla.mirror.link.topics import LinkTopics, lags, reachable

    with _linked(properties, reverse) as (link, source, target):
        mirrors = LinkTopics(link, source, target).mirrors()
        origin = reachable(source)
        if origin is None:
            click.echo(f"Cluster {link.flow.source} cannot be reached, so the lag is not known.")
        if not mirrors:
            click.echo(f"Cluster {link.flow.target} has no mirror topics of link '{link.name}'.")
            return
        rows = [("PARTITION", "SOURCE-END", "MIRROR-END", "LAG")]
        for lag in lags(origin, target, list(mirrors.values())):
            known = lag.records is not None
            rows.append(
                (
                    str(lag.partition),
                    str(lag.source_end) if known else "?",
                    str(lag.target_end),
                    str(lag.records) if known else "?",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        if origin is not None:
            try:
                check_history(
                    origin, target, [each for topic in mirrors.values() for each in topic.partitions]
                )
            except Diverged as error:
                click.echo(error.message)


def _chosen(mirrors: Mapping[str, Topic], names: Collection[str], link: LinkSettings) -> list[Topic]:
    for name in names:
        if name not in mirrors:
            raise JobError(
                f"Cluster {link.flow.target} has no mirror topic '{name}' of link '{link.name}': "
                "'ottla mirror link status' lists them."
            )
    return [mirrors[name] for name in names]


def promote_topics(properties: Properties, names: Sequence[str], *, reverse: bool) -> None:
    from ottla.mirror.link.promotion import promote
    from ottla.mirror.link.topics import LinkTopics

    with _linked(properties, reverse) as (link, source, target):
        for topic in _chosen(LinkTopics(link, source, target).mirrors(), names, link):
            promote(source, target, link.name, topic)
            click.echo(
                f"Topic '{topic.name}' of cluster {link.flow.target} is promoted: producers may write to it."
            )


def fail_over(properties: Properties, names: Sequence[str], *, reverse: bool, yes: bool) -> None:
    from ottla.client.offsets import READ_UNCOMMITTED
    from ottla.mirror.link.promotion import promote
    from ottla.mirror.link.topics import LinkTopics, lags, reachable

    with _linked(properties, reverse) as (link, source, target):
        topics = _chosen(LinkTopics(link, source, target).mirrors(), names, link)
        origin = reachable(source)
        if origin is None:
            click.echo(f"Cluster {link.flow.source} cannot be reached: how much is lost is not known.")
        else:
            _say_lost(
                lags(origin, target, topics, READ_UNCOMMITTED), f"Only cluster {link.flow.source} has them"
            )
        _ask("Fail over?", yes)
        for topic in topics:
            promote(None, target, link.name, topic)
            click.echo(
                f"Topic '{topic.name}' of cluster {link.flow.target} is promoted: producers may write to it."
            )


def fail_back(properties: Properties, names: Sequence[str], *, reverse: bool, yes: bool) -> None:
    from ottla.mirror.link.promotion import lost_by_failback, make_old_side_a_mirror
    from ottla.mirror.link.settings import parse_link
    from ottla.mirror.link.topics import LinkTopics

    with _linked(properties, reverse) as (link, old, new):
        back = LinkTopics(parse_link(properties, reverse=not reverse), new, old)
        lost = [lag for name in names for lag in lost_by_failback(old, new, name)]
        _say_lost(lost, f"Only cluster {link.flow.source} has them, and its topics will be deleted")
        _ask(
            f"Delete {', '.join(names)} of cluster {link.flow.source} and mirror it from {link.flow.target}?",
            yes,
        )
        for name in names:
            make_old_side_a_mirror(back, old, new, name)
            click.echo(
                f"Topic '{name}' of cluster {link.flow.source} is a mirror of cluster {link.flow.target} now."
            )
        direction = "" if reverse else " --reverse"
        click.echo(f"To copy it, run: ottla mirror link start{direction} LINK.PROPERTIES")


def _say_lost(found: Collection[PartitionLag], where: str) -> None:
    missing = [lag for lag in found if lag.records]
    if not missing:
        click.echo("No records will be lost.")
        return
    for lag in missing:
        offsets = f"offsets {lag.target_end} to {lag.source_end - 1}"
        click.echo(f"{lag.partition}: {lag.records} records will be lost, {offsets}.")
    click.echo(f"{where}.")


def _ask(question: str, yes: bool) -> None:
    if not yes and not click.confirm(question):
        raise JobError("Nothing was done.")
