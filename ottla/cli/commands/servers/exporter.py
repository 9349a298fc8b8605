"""`ottla exporter`"""

from __future__ import annotations

import logging
import re
import signal
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

import click

from ottla.cli.commands.servers.http_servers import allowed_hosts_option, cannot_listen, configure_log
from ottla.cli.commands.servers.start import log_format_option
from ottla.cli.options import bootstrap_server_option, command_config_option, make_client, seconds_option
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.cluster import Cluster
    from ottla.monitoring.metrics.otlp_push import PushThread

DEFAULT_LISTEN = "127.0.0.1:9308"


@click.command(short_help="Export lag and offsets to Prometheus.")
@bootstrap_server_option
@click.option(
    "--kafka.server",
    "kafka_servers",
    multiple=True,
    metavar="HOST:PORT",
    help="Same as --bootstrap-server.",
)
@command_config_option
@click.option(
    "--listen",
    "-l",
    "--web.listen-address",
    "listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on. Port 0 picks a free port.",
)
@allowed_hosts_option
@click.option(
    "--web.telemetry-path", "path", default="/metrics", show_default=True, help="Path of the metrics."
)
@click.option(
    "--topic.filter",
    "topics",
    default=".*",
    show_default=True,
    metavar="REGEX",
    help="Regular expression for topics to export.",
)
@click.option(
    "--topic.exclude",
    "no_topics",
    default="^$",
    metavar="REGEX",
    help="Regular expression for topics to skip.",
)
@click.option(
    "--group.filter",
    "groups",
    default=".*",
    show_default=True,
    metavar="REGEX",
    help="Regular expression for groups to export.",
)
@click.option(
    "--group.exclude",
    "no_groups",
    default="^$",
    metavar="REGEX",
    help="Regular expression for groups to skip.",
)
@click.option(
    "--offset.show-all/--no-offset.show-all",
    "idle_groups",
    default=True,
    help="Include groups without members. [default: yes]",
)
@click.option("--pipelines", is_flag=True, help="Include pipelines of this machine.")
@click.option("--audit", "with_audit", is_flag=True, help="Include the counts of `ottla audit`.")
@click.option("--otlp", metavar="URL", help="Push the metrics to an OpenTelemetry collector as well.")
@seconds_option("--otlp-interval", default=15.0, help="Time between two pushes.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings and errors.")
@log_format_option
def exporter(
    bootstrap_server: str,
    kafka_servers: tuple[str, ...],
    command_config: Path | None,
    listen: str,
    allowed_hosts: tuple[str, ...],
    path: str,
    topics: str,
    no_topics: str,
    groups: str,
    no_groups: str,
    idle_groups: bool,
    pipelines: bool,
    with_audit: bool,
    otlp: str | None,
    otlp_interval: float,
    quiet: bool,
    log_format: str,
) -> None:
    """Export group lag and partition offsets of any Kafka cluster to Prometheus.

    Uses the names and options of kafka_exporter, so its dashboards and alerts work. Each scrape sends at most six
    requests to each broker.

    \b
    Examples:
      ottla exporter
      ottla exporter --kafka.server kafka1:9092 --web.listen-address :9308
      ottla exporter --topic.filter '^orders' --group.filter '^billing' --pipelines
      ottla exporter --otlp http://localhost:4318
    """
    from ottla.cli.commands.servers.start import parse_listen
    from ottla.monitoring.exporter import Exporter, Filter
    from ottla.monitoring.metrics.endpoint import MetricsThread

    configure_log(quiet, log_format)
    has_port = listen.isdecimal() or listen.rpartition(":")[2].isdecimal()
    host, _, port = parse_listen(listen if has_port else f"{listen}:9308").rpartition(":")
    if not path.startswith("/"):
        raise click.UsageError(f"'{path}' is not a path: it begins with a slash.")
    client = make_client(",".join(kafka_servers) or bootstrap_server, command_config, timeout=10.0)
    exporting = Exporter(
        client.cluster,
        topics=Filter(_pattern("--topic.filter", topics), _pattern("--topic.exclude", no_topics)),
        groups=Filter(_pattern("--group.filter", groups), _pattern("--group.exclude", no_groups)),
        idle_groups=idle_groups,
        more=_more(client.cluster, pipelines, with_audit),
    )
    pushing = None if otlp is None else _pushing(otlp, exporting.render, otlp_interval)
    server = MetricsThread(
        host.strip("[]"),
        int(port),
        exporting.render,
        path,
        names=allowed_hosts,
        names_setting="--allowed-host",
    )
    try:
        server.start()
    except OSError as error:
        raise cannot_listen(listen, error) from None
    if pushing is not None:
        pushing.start()
    if not quiet:
        click.secho("The exporter is ready.", fg="green", bold=True)
        click.echo(click.style("Metrics   ", dim=True) + click.style(server.url, fg="cyan"))
        click.echo(click.style("Cluster   ", dim=True) + client.bootstrap_servers)
        click.echo("\nCtrl-C stops it.")
    wait_for_end()
    server.stop()
    if pushing is not None:
        pushing.stop()
    client.close()
    if not quiet:
        click.echo("Stopped cleanly.")


def _pushing(url: str, render: Callable[[], str], interval: float) -> PushThread:
    from ottla.monitoring.metrics.otlp_push import BadCollector, CollectorClient, PushThread

    try:
        return PushThread(CollectorClient(url, {"service.name": "ottla-exporter"}), render, interval)
    except BadCollector as error:
        raise click.UsageError(f"--otlp: {error}.") from None


def _more(cluster: Cluster, pipelines: bool, with_audit: bool) -> Callable[[], list[str]]:
    from ottla.client.errors import ClientError
    from ottla.monitoring.audit.metrics import AuditMetrics

    audit = AuditMetrics(cluster) if with_audit else None

    def lines() -> list[str]:
        found = _pipelines(cluster) if pipelines else []
        try:
            return found if audit is None else found + audit.lines()
        except ClientError as error:
            logging.getLogger("ottla.monitoring.exporter").warning("%s", error.message)
            return found

    return lines


def _pipelines(cluster: Cluster) -> list[str]:
    """Report the pipelines of this machine that use this cluster."""
    from ottla.spark.pipelines.metrics import pipeline_lines
    from ottla.spark.pipelines.state import PipelineError, Pipelines

    here = {f"{host}:{port}" for host, port in cluster.settings.bootstrap}
    try:
        found = [each for each in Pipelines().all() if here & set(each.bootstrap_servers.split(","))]
        return list(pipeline_lines(found))
    except PipelineError as error:
        logging.getLogger("ottla.monitoring.exporter").warning("%s", error.message)
        return []


def wait_for_end() -> None:
    ended = Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in ending_signals()}
    try:
        while not ended.wait(3600):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pattern(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"{option} '{text}' is not a valid regular expression: {error}.") from None
