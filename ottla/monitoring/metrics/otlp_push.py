"""Push metrics to an OpenTelemetry collector by OTLP over HTTP. Runs as a separate process for a broker.

The broker renders its metrics as for a scrape. This process parses the text, encodes it as OTLP, compresses and sends
it. It receives lines of JSON over standard input, a socket, and answers each with the outcome.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from threading import Event, Thread
from urllib.parse import urlsplit

from ottla.monitoring.metrics.otlp import export_request

logger = logging.getLogger(__name__)

_PATH = "/v1/metrics"
_TIMEOUT_SECONDS = 10.0
_START = re.compile(r"^process_start_time_seconds (\S+)$", re.MULTILINE)


class BadCollector(ValueError):
    """An invalid URL or header. The message gives the reason."""


def collector_url(endpoint: str) -> str:
    """Return the URL for metrics. A URL without a path gets OpenTelemetry's."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadCollector(f"'{endpoint}' is no URL of a collector, for example http://localhost:4318")
    return endpoint if parts.path not in ("", "/") else endpoint.rstrip("/") + _PATH


def parse_headers(text: str) -> dict[str, str]:
    """Parse `Name=value,Name=value`, as in OTEL_EXPORTER_OTLP_HEADERS."""
    headers = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, found, value = pair.partition("=")
        if not found or not name.strip():
            raise BadCollector("headers are written as Name=value, with commas between them")
        headers[name.strip()] = value.strip()
    return headers


class CollectorClient:
    """Sends to one collector, as one resource."""

    def __init__(
        self, endpoint: str, resource: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> None:
        self.url = collector_url(endpoint)
        self._resource = dict(resource)
        self._headers = dict(headers or {})
        self._start_ns = time.time_ns()

    def push(self, text: str) -> str | None:
        """Push and return the error, if any. Counters are cumulative: the next push makes up for a failed one."""
        known = _START.search(text)  # start of the counting program, not of this client
        start_ns = self._start_ns if known is None else int(float(known[1]) * 1e9)
        data = export_request(text, self._resource, time_ns=time.time_ns(), start_ns=start_ns)
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": "ottla",
            **self._headers,
        }
        request = urllib.request.Request(self.url, gzip.compress(data, 1), headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return f"{self.url} answers {error.code} {error.reason}"
        except (OSError, HTTPException, ValueError) as error:
            return f"{self.url} cannot be reached: {getattr(error, 'reason', None) or error}"
        return None


class PushThread:
    """Pushes the output of `render` periodically, for programs other than brokers."""

    def __init__(self, client: CollectorClient, render: Callable[[], str], interval: float) -> None:
        self._client = client
        self._render = render
        self._interval = interval
        self._stopping = Event()
        self._is_failing = False
        self._thread = Thread(target=self._run, name="otlp", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after a last push."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self._push()
        self._push()

    def _push(self) -> None:
        error = self._client.push(self._render())
        if error is not None and not self._is_failing:
            logger.warning("Metrics cannot be pushed: %s", error)
        self._is_failing = error is not None


def run(channel: socket.socket) -> None:
    """Push for a broker. The first line has endpoint, resource and headers; each later line is a text."""
    with channel.makefile("rw", encoding="utf-8") as lines:
        client: CollectorClient | None = None
        for line in lines:
            message = json.loads(line)
            if client is None:
                client = CollectorClient(message["endpoint"], message["resource"], message["headers"])
                continue
            lines.write(json.dumps({"error": client.push(message["text"])}) + "\n")
            lines.flush()


if __name__ == "__main__":
    run(socket.socket(fileno=0))
