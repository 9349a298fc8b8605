"""Forward pushed metrics to a collector with OTLP over HTTP, in a separate thread."""

from __future__ import annotations

import logging
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from queue import Empty, Full, Queue
from threading import Thread
from urllib.parse import urlsplit

from ottla.broker.telemetry.otlp import MalformedMetrics, with_attributes
from ottla.protocol.compression import Codec, decompress
from ottla.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_PATH = "/v1/metrics"
_WAITING = 256  # queued pushes; further ones are dropped
_TIMEOUT_SECONDS = 10.0
_EXPANSION = 32  # maximum expansion of compressed data


class Forwarder:
    """Invariant: no client waits for the collector, and the queue is bounded. Each counter has one writing thread.

    The thread decompresses and sends; `offer` runs on the event loop.
    """

    def __init__(self, endpoint: str, max_size: int) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"'{endpoint}' is no URL of a collector, for example http://localhost:4318")
        self.url = endpoint if parts.path not in ("", "/") else endpoint.rstrip("/") + _PATH
        self._max_size = max_size * _EXPANSION
        self._queue: Queue[tuple[int, bytes, dict[str, str]] | None] = Queue(_WAITING)
        self._thread: Thread | None = None
        self._is_failing = False
        self.dropped = 0
        self.exported = 0
        self.failed = 0

    def offer(self, codec: int, data: bytes, attributes: Mapping[str, str]) -> None:
        """Queue metrics for sending, or drop them if the queue is full."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait((codec, data, dict(attributes)))
        except Full:
            self.dropped += 1

    def close(self) -> None:
        if self._thread is None:
            return
        try:
            while True:
                self._queue.get_nowait()
        except Empty:
            self._queue.put_nowait(None)

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            try:
                self._send(*entry)
                self.exported += 1
                self._is_failing = False
            except (KafkaError, MalformedMetrics) as error:
                self.failed += 1
                logger.info("Metrics of client %s are not understood: %s", entry[2].get("client_id"), error)
            except (OSError, HTTPException, ValueError) as error:
                self.failed += 1
                if not self._is_failing:
                    self._is_failing = True
                    logger.warning("Metrics of clients cannot be passed on to %s: %s", self.url, error)

    def _send(self, codec: int, data: bytes, attributes: dict[str, str]) -> None:
        metrics = with_attributes(
            decompress(codec, data, self._max_size) if codec != Codec.NONE else data, attributes
        )
        request = urllib.request.Request(
            self.url, metrics, {"Content-Type": "application/x-protobuf", "User-Agent": "ottla"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            answer.read()
