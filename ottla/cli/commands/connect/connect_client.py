"""Client for Connect workers of Ottla and Apache Kafka."""

from __future__ import annotations

from typing import Any

from ottla.cli.errors import JobError
from ottla.cli.http_services import Refused, check_url, service_options

DEFAULT_URL = "http://localhost:8083"


class ConnectClient:
    def __init__(self, url: str, user: str | None, ca: str | None, timeout: float) -> None:
        from ottla.client.json_server import JsonServer

        check_url(url, "a worker", DEFAULT_URL)
        self._server = JsonServer(url, "a Connect worker", user=user, ca=ca, timeout=timeout)

    def get(self, *path: str, **query: str) -> Any:
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: object = None, **query: str) -> Any:
        """Return the JSON of the response, or None without a body. Raises Refused or JobError."""
        from ottla.client import json_server
        from ottla.client.errors import ClientError, Unreachable

        try:
            return self._server.request(method, json_server.path_of(*path, **query), body)
        except json_server.Refused as error:
            raise Refused(error.status, error.message) from None
        except Unreachable as error:
            raise JobError(
                f"{error.message} Start one with 'ottla connect start', or name another with --url."
            ) from None
        except ClientError as error:
            raise JobError(error.message) from None


#: How to reach a worker; the command gets a `worker` in their place.
worker_options = service_options(
    "worker",
    ConnectClient,
    url_option=("--url", "-u"),
    environment="OTTLA_CONNECT",
    default_url=DEFAULT_URL,
    what="a worker",
    named="a worker",
    timeout=90.0,
)
