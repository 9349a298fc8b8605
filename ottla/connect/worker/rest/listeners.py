"""The listening and advertised addresses of a worker: `listeners` and `rest.advertised.*`."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from typing import NamedTuple

from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig

_LISTENER = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/]*):(?P<port>\d+)/?", re.IGNORECASE)
EVERY_INTERFACE = ("", "0.0.0.0", "::")
_HTTPS = "listeners.https."


class Listener(NamedTuple):
    scheme: str
    host: str
    port: int


class Address(NamedTuple):
    """The address of a worker."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}/"

    @property
    def authority(self) -> str:
        """Return `host:port`, the worker's id in statuses."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_listeners(setting: str, values: Sequence[str]) -> list[Listener]:
    """Raises ConfigError."""
    found = []
    for each in values:
        listener = _LISTENER.fullmatch(each.strip())
        if listener is None or int(listener["port"]) > 65535:
            raise ConfigError(f"{setting} has '{each}': write http://HOST:PORT or https://HOST:PORT.")
        found.append(
            Listener(listener["scheme"].lower(), listener["host"].strip("[]"), int(listener["port"]))
        )
    return found


def parse_address(url: str) -> Address:
    """Parse another worker's URL from the group. Raises ConfigError."""
    found = _LISTENER.fullmatch(url)
    if found is None:
        raise ConfigError(f"{url} is not the URL of a worker.")
    return Address(found["scheme"].lower(), found["host"].strip("[]"), int(found["port"]))


def advertised(worker: WorkerConfig, bound: Sequence[Address]) -> Address:
    """Return the address for other workers. `bound` lists this worker's listeners with their actual ports."""
    values = worker.values
    scheme = (values["rest.advertised.listener"] or bound[0].scheme).lower()
    listener = next((each for each in bound if each.scheme == scheme), None)
    if listener is None:
        raise ConfigError(f"rest.advertised.listener is {scheme}, but no listener has it.")
    host = values["rest.advertised.host.name"] or listener.host
    if host in EVERY_INTERFACE:
        host = socket.getfqdn()
    return Address(scheme, host, values["rest.advertised.port"] or listener.port)


def https_properties(worker: WorkerConfig) -> dict[str, str]:
    """Return the HTTPS settings: those under `listeners.https.`, or the worker's own `ssl.*` if there are none."""
    own = worker.with_prefix(_HTTPS)
    found = own or {name: value for name, value in worker.properties.items() if name.startswith("ssl.")}
    asked = found.pop("ssl.client.auth", "none").strip().lower()
    names = {"none": "NONE", "requested": "REQUESTED", "required": "REQUIRED"}
    if asked not in names:
        raise ConfigError(f"ssl.client.auth is '{asked}': write none, requested or required.")
    return {**found, "ssl.client.authentication": names[asked]}
