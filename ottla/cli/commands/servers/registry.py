"""`ottla registry`, `ottla start --registry` and `schema-registry-start`"""

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
from ottla.cli.commands.servers.start import DEFAULT_REGISTRY_LISTEN as DEFAULT_LISTEN
from ottla.cli.commands.servers.start import http_listener
from ottla.cli.errors import JobError, require

if TYPE_CHECKING:
    from ottla.http.background import InBackground
    from ottla.registry.settings import RegistrySettings


def _for_kafkastore(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"kafkastore.{name}": value for name, value in properties.items()}


@click.group(short_help="Run the schema registry.")
def registry() -> None:
    """Run the schema registry, with Confluent's API. Any Kafka cluster can store the schemas.

    `ottla start --registry` runs one beside a broker. `ottla schema` lists and changes its schemas.
    """


@registry.command(short_help="Start a registry.")
@takes_properties(
    "schema-registry.properties",
    "Confluent's registry",
    default_listen=DEFAULT_LISTEN,
    port=8081,
    bootstrap_name="kafkastore.bootstrap.servers",
    for_clients=_for_kafkastore,
)
def start(properties: dict[str, str], quiet: bool, log_format: str) -> None:
    """Start a registry; Ctrl-C stops it. Several registries on one cluster elect a writer.

    \b
    Examples:
      ottla registry start
      ottla registry start --bootstrap-server kafka1:9092 --listen 0.0.0.0:8081
      ottla registry start --config schema-registry.properties
    """
    serve(properties, quiet=quiet, log_format=log_format)


def serve(properties: Mapping[str, str], *, quiet: bool = False, log_format: str = "text") -> None:
    configure_log(quiet, log_format)
    settings = read_settings(properties)
    from ottla.registry.server import RegistryServer

    serve_until_stopped(
        lambda: RegistryServer(settings),
        name="schema registry",
        about={"Schemas": f"topic {settings.topic} on {settings.client.servers}"},
        example="curl {url}/subjects",
        sentences=lambda: _sentences(settings),
        quiet=quiet,
    )


@contextmanager
def _sentences(settings: RegistrySettings) -> Iterator[None]:
    from ottla.client.errors import ClientError
    from ottla.registry.log import UnusableTopic
    from ottla.registry.settings import BadSettings

    try:
        yield
    except (BadSettings, UnusableTopic) as error:
        raise JobError(str(error)) from None
    except ClientError as error:
        raise JobError(error.message) from None
    except TimeoutError:
        raise JobError(
            f"The schemas in topic {settings.topic} could not be read within {settings.init_timeout:g} s: raise "
            "kafkastore.init.timeout.ms if there are many."
        ) from None
    except OSError as error:
        where = ", ".join(f"{each.host}:{each.port}" for each in settings.listeners)
        raise cannot_listen(where, error) from None


def read_settings(properties: Mapping[str, str]) -> RegistrySettings:
    require("registry")
    from ottla.client.errors import ClientError
    from ottla.registry.settings import BadSettings, RegistrySettings

    try:
        return RegistrySettings.from_properties(properties)
    except BadSettings as error:
        raise JobError(str(error)) from None
    except ClientError as error:
        raise JobError(error.message) from None


def start_beside(listen: str, brokers: Sequence[str], client_file: Path | None) -> InBackground:
    """Start a registry in this process, for the brokers of `ottla start`.

    It reaches secured brokers as the admin of `client_file`. Its callers log in with their own Kafka users.
    """
    require("registry")
    from ottla.http.background import InBackground
    from ottla.registry.server import RegistryServer

    if client_file is not None:
        check_loopback(listen, "--registry", "ottla registry start")
    properties = _for_kafkastore(file_properties(client_file))
    properties["kafkastore.bootstrap.servers"] = ",".join(brokers)
    properties["listeners"] = http_listener(listen, 8081)
    if client_file is not None:
        properties["authentication.method"] = "KAFKA"
    settings = read_settings(properties)
    with _sentences(settings):
        return InBackground(lambda: RegistryServer(settings), "schema-registry").start()


def main() -> None:
    start_tool(
        "schema-registry-start", "schema-registry.properties", "schema registry", "schemaRegistry.out", serve
    )
