"""`ottla rest` and `kafka-rest-start`"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.commands.servers.http_servers import (
    cannot_listen,
    check_loopback,
    configure_log,
    file_properties,
    serve_until_stopped,
    start_tool,
    takes_properties,
)
from ottla.cli.commands.servers.start import DEFAULT_REST_LISTEN, http_listener
from ottla.cli.errors import JobError, require

if TYPE_CHECKING:
    from ottla.http.background import InBackground
    from ottla.rest.settings import RestSettings


def _for_clients(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"client.{name}": value for name, value in properties.items()}


@click.group(short_help="Run the REST proxy.")
def rest() -> None:
    """Run the REST proxy: Kafka over HTTP, with Confluent's paths, for any Kafka cluster.

    `ottla start --rest` runs one beside a broker.
    """


@rest.command(short_help="Start a REST proxy.")
@takes_properties(
    "kafka-rest.properties",
    "Confluent's proxy",
    default_listen=DEFAULT_REST_LISTEN,
    port=8082,
    for_clients=_for_clients,
)
def start(properties: dict[str, str], quiet: bool, log_format: str) -> None:
    """Start a REST proxy; Ctrl-C stops it.

    \b
    Examples:
      ottla rest start
      ottla rest start --bootstrap-server kafka1:9092 --listen 0.0.0.0:8082
      ottla rest start --config kafka-rest.properties
    """
    serve(properties, quiet=quiet, log_format=log_format)


def read_settings(properties: Mapping[str, str]) -> RestSettings:
    require("rest")
    from ottla.client.errors import ClientError
    from ottla.rest.settings import BadSettings, RestSettings

    try:
        settings = RestSettings.parse(properties)
        _ = settings.cluster  # finds errors now, not with the first request
    except BadSettings as error:
        raise JobError(str(error)) from None
    except ClientError as error:
        raise JobError(error.message) from None
    return settings


def serve(properties: Mapping[str, str], *, quiet: bool = False, log_format: str = "text") -> None:
    configure_log(quiet, log_format)
    settings = read_settings(properties)
    from ottla.rest.server import RestProxy

    serve_until_stopped(
        lambda: RestProxy(settings),
        name="REST proxy",
        about={"Cluster": settings.cluster.servers},
        example="curl {url}/topics",
        sentences=lambda: _sentences(settings),
        quiet=quiet,
    )


def start_beside(
    listen: str, brokers: Sequence[str], client_file: Path | None, registry: str | None
) -> InBackground:
    """Start a proxy in this process, for the brokers of `ottla start`.

    From the admin's `client_file` it uses everything but the login, because callers log in with their own users.
    """
    require("rest")
    from ottla.http.background import InBackground
    from ottla.rest.server import RestProxy

    if client_file is not None:
        check_loopback(listen, "--rest", "ottla rest start")
    properties = _for_clients(file_properties(client_file))
    properties.pop("client.sasl.username", None)
    properties.pop("client.sasl.password", None)
    properties |= {"bootstrap.servers": ",".join(brokers), "listeners": http_listener(listen, 8082)}
    if client_file is not None:
        properties["authentication.method"] = "PROPAGATE"
    if registry is not None:
        properties["schema.registry.url"] = registry
        if client_file is not None:
            properties["schema.registry.basic.auth.credentials.source"] = "PROPAGATE"
    settings = read_settings(properties)
    with _sentences(settings):
        return InBackground(lambda: RestProxy(settings), "rest-proxy").start()


@contextmanager
def _sentences(settings: RestSettings) -> Iterator[None]:
    from ottla.http.authentication import BadPasswordFile
    from ottla.http.tls import BadTlsSettings

    try:
        yield
    except (BadPasswordFile, BadTlsSettings) as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise cannot_listen(f"{settings.host}:{settings.port}", error) from None


def main() -> None:
    start_tool("kafka-rest-start", "kafka-rest.properties", "REST proxy", "kafkaRest.out", serve)
