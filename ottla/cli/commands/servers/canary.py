"""`ottla canary`"""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

import click

from ottla.cli.commands.servers.http_servers import allowed_hosts_option, cannot_listen
from ottla.cli.errors import JobError
from ottla.cli.options import (
    bootstrap_server_option,
    command_config_option,
    count_option,
    json_option,
    make_client,
    seconds_option,
)
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    from ottla.monitoring.canary import Canary, Round
    from ottla.monitoring.metrics.endpoint import MetricsThread

DEFAULT_TOPIC = "ottla-canary"
DEFAULT_METRICS = "127.0.0.1:9309"
_ROTATE_SECONDS = 150.0


@click.command(short_help="Write and read records through every broker, and report losses and latency.")
@bootstrap_server_option
@command_config_option
@click.option(
    "--topic", default=DEFAULT_TOPIC, show_default=True, help="Topic for the records; created if missing."
)
@seconds_option("--interval", default=5.0, help="Time between two rounds.")
@count_option("--records", default=10, show_default=True, help="Records per broker and round.")
@count_option("--size", default=100, show_default=True, help="Size of a record.")
@count_option(
    "--replication-factor",
    help="Replication factor of the topic. [default: 3, or the number of brokers if fewer]",
)
@count_option("--rounds", help="Stop after N rounds. [default: run until Ctrl-C]")
@seconds_option("--timeout", default=5.0, help="Time to wait for a broker's answer.")
@click.option(
    "--metrics",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=DEFAULT_METRICS,
    help=f"Export the figures to Prometheus. [default: {DEFAULT_METRICS}]",
)
@allowed_hosts_option
@json_option("Print a JSON object per round.")
def canary(
    bootstrap_server: str,
    command_config: Path | None,
    topic: str,
    interval: float,
    records: int,
    size: int,
    replication_factor: int | None,
    rounds: int | None,
    timeout: float,
    metrics: str | None,
    allowed_hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write records through every broker with acks=all, read them back, and report losses and latency.

    Each broker leads a partition of the canary's topic. Every round reads the acknowledged records of the last rounds
    again, to notice records that an election lost. The exit code is 1 if records were lost, or if a broker failed in
    the last round.

    \b
    Examples:
      ottla canary
      ottla canary --rounds 1
      ottla canary --interval 30 --metrics
    """
    from ottla.client.errors import ClientError
    from ottla.monitoring.canary import Canary

    client = make_client(bootstrap_server, command_config, timeout)
    bird = Canary(client.cluster, topic, records=records, size=size, replication_factor=replication_factor)
    server = _serve(bird, metrics, allowed_hosts) if metrics is not None else None
    ended = Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in ending_signals()}
    done, rotated, is_well = 0, time.monotonic(), True
    try:
        while not ended.is_set():
            began = time.monotonic()
            try:
                found = bird.round()
            except ClientError as error:
                if not done:
                    raise JobError(error.message) from None
                is_well = False
                _print({"error": error.message}, error.message, as_json)
            else:
                is_well = not found.errors
                _print(asdict(found), _line(found), as_json)
            done += 1
            if rounds is not None and done >= rounds:
                break
            if time.monotonic() - rotated > _ROTATE_SECONDS:
                rotated = time.monotonic()
                bird.rotate()
            ended.wait(max(0.0, interval - (time.monotonic() - began)))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if server is not None:
            server.stop()
        client.close()
    if not is_well or any(each.lost for each in bird.figures.values()):
        sys.exit(1)


def _serve(bird: Canary, listen: str, allowed_hosts: tuple[str, ...]) -> MetricsThread:
    from ottla.cli.commands.servers.start import parse_listen
    from ottla.monitoring.metrics.endpoint import MetricsThread
    from ottla.monitoring.metrics.text import process_metrics

    has_port = listen.isdecimal() or listen.rpartition(":")[2].isdecimal()
    host, _, port = parse_listen(listen if has_port else f"{listen}:9309").rpartition(":")
    server = MetricsThread(
        host.strip("[]"),
        int(port),
        lambda: "".join([*bird.lines(), *process_metrics()]),
        names=allowed_hosts,
        names_setting="--allowed-host",
    )
    try:
        server.start()
    except OSError as error:
        raise cannot_listen(listen, error) from None
    click.echo(f"Metrics at {server.url}", err=True)
    return server


def _print(value: dict[str, object], line: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"time": time.time(), **value}))
    else:
        click.echo(f"{time.strftime('%H:%M:%S')} {line}")
    sys.stdout.flush()


def _line(found: Round) -> str:
    brokers = "1 broker" if found.brokers == 1 else f"{found.brokers} brokers"
    line = (
        f"{brokers}: {found.acknowledged} records written, {found.lost} lost, {found.failed} failed, "
        f"latency {found.p50_ms:.1f} ms (99 %: {found.p99_ms:.1f} ms, most: {found.max_ms:.1f} ms)"
    )
    for broker, error in found.errors.items():
        line += f"\n         broker {broker}: {error}"
    return line
