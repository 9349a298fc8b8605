"""`ottla connect start`: a Connect worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.commands.servers.http_servers import (
    cannot_listen,
    check_loopback,
    configure_log,
    file_properties,
    serve_until_stopped,
    takes_properties,
)
from ottla.cli.commands.servers.start import DEFAULT_CONNECT_LISTEN as DEFAULT_LISTEN
from ottla.cli.commands.servers.start import http_listener
from ottla.cli.errors import JobError, require

if TYPE_CHECKING:
    from ottla.cli.commands.connect import ConnectorFile
    from ottla.connect.config.worker_config import WorkerConfig
    from ottla.http.background import InBackground

_JSON = "org.apache.kafka.connect.json.JsonConverter"
#: Where no file says otherwise. -1 is what the brokers have as their default.
_DEFAULTS = {
    "group.id": "connect-cluster",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "10000",
}


def with_clients(properties: Mapping[str, str]) -> dict[str, str]:
    security = {
        name: value for name, value in properties.items() if name.startswith(("sasl.", "ssl.", "security."))
    }
    made = dict(properties)
    for kind in ("producer", "consumer", "admin"):
        made |= {f"{kind}.{name}": value for name, value in security.items()}
    return made


@click.command(short_help="Start a worker.")
@takes_properties(
    "connect-distributed.properties",
    "Kafka's worker",
    default_listen=DEFAULT_LISTEN,
    port=8083,
    for_clients=with_clients,
    defaults=_DEFAULTS,
)
def start(properties: dict[str, str], quiet: bool, log_format: str) -> None:
    """Start a worker; Ctrl-C stops it. Workers with the same group.id share their connectors.

    \b
    Examples:
      ottla connect start
      ottla connect start --bootstrap-server kafka1:9092 --listen 0.0.0.0:8083
      ottla connect start --config connect-distributed.properties --set spark.master=spark://host:7077
    """
    serve(properties, quiet=quiet, log_format=log_format)


def serve(
    properties: Mapping[str, str],
    *,
    distributed: bool = True,
    connectors: Sequence[ConnectorFile] = (),
    quiet: bool = False,
    log_format: str = "text",
) -> None:
    import logging

    configure_log(quiet, log_format)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    worker = read_settings(properties, distributed=distributed)
    from ottla.connect.worker.server import ConnectServer
    from ottla.connect.worker.spark_engine import SparkEngine

    if not quiet:
        output.note("Starting Spark …")
    about = {"Cluster": worker.client_settings.servers}
    if distributed:
        topics = ", ".join((worker.config_topic, worker.offset_topic, worker.status_topic))
        about |= {"Group": worker.group_id, "Topics": topics}
    serve_until_stopped(
        lambda: ConnectServer(
            worker,
            SparkEngine,
            connectors=[each.config for each in connectors],
            initial_states={
                each.config["name"]: each.initial_state
                for each in connectors
                if each.initial_state is not None
            },
        ),
        name="Connect worker",
        about=about,
        example="curl {url}/connectors",
        sentences=lambda: _sentences(worker),
        quiet=quiet,
    )


@contextmanager
def _sentences(worker: WorkerConfig) -> Iterator[None]:
    from ottla.client.errors import ClientError
    from ottla.jvm.java import NoJava

    try:
        yield
    except ClientError as error:
        raise JobError(error.message) from None
    except NoJava as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise cannot_listen(", ".join(worker.values["listeners"]), error) from None


def read_settings(properties: Mapping[str, str], *, distributed: bool = True) -> WorkerConfig:
    require("connect")
    from ottla.client.errors import ClientError
    from ottla.connect.config.worker_config import WorkerConfig

    try:
        return WorkerConfig.from_properties(properties, distributed=distributed)
    except ClientError as error:
        raise JobError(error.message) from None


def start_beside(
    listen: str, brokers: Sequence[str], client_file: Path | None, file_directories: Sequence[str] = ()
) -> InBackground:
    """Start a worker in this process, for the brokers of `ottla start`.

    Its connectors reach secured brokers as the admin of `client_file`. So its callers log in with their own Kafka
    users, and need ALTER on the cluster to change connectors.
    """
    if client_file is not None:
        check_loopback(listen, "--connect", "ottla connect start")
    properties = dict(_DEFAULTS)
    if client_file is not None:
        properties |= with_clients(file_properties(client_file))
    properties["bootstrap.servers"] = ",".join(brokers)
    properties["listeners"] = http_listener(listen, 8083)
    properties["connector.file.directories"] = ",".join(file_directories)
    if client_file is not None:
        properties["authentication.method"] = "KAFKA"
    worker = read_settings(properties)
    from ottla.connect.worker.server import ConnectServer
    from ottla.connect.worker.spark_engine import SparkEngine
    from ottla.http.background import InBackground

    with _sentences(worker):
        return InBackground(lambda: ConnectServer(worker, SparkEngine), "connect").start()
