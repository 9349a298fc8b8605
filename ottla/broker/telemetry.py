"""Client metrics (KIP-714): subscriptions, pushed metrics, and their export to a collector."""

from __future__ import annotations

import logging
import re
import urllib.error
import urllib.request
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from queue import Empty, Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from crc32c import crc32c

from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.group_configs import subscription_of
from ottla.monitoring.metrics.text import counter, gauge
from ottla.protocol.compression import Codec, decompress
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

# OpenTelemetry's MetricsData as pushed by clients, equal to the body of an export request.
#
# This module parses only the outermost fields and adds attributes that identify the client to each resource. Protocol
# Buffers merges repeated fields, so the attributes are appended without decoding anything.

_RESOURCE_METRICS = 0x0A  # MetricsData: field 1, length-delimited
_RESOURCE = 0x0A  # ResourceMetrics: the same
_ATTRIBUTES = 0x0A  # Resource: the same
_KEY, _VALUE, _STRING = 0x0A, 0x12, 0x0A  # KeyValue and AnyValue


class MalformedMetrics(ValueError):
    """Raised for bytes that are not MetricsData."""


def with_attributes(data: bytes, attributes: Mapping[str, str]) -> bytes:
    entries = b"".join(
        _field(
            _ATTRIBUTES,
            _field(_KEY, name.encode()) + _field(_VALUE, _field(_STRING, value.encode())),
        )
        for name, value in attributes.items()
    )
    resource = _field(_RESOURCE, entries)
    parts = []
    position = 0
    while position < len(data):
        if data[position] != _RESOURCE_METRICS:
            raise MalformedMetrics(f"an unknown field at byte {position}")
        size, position = _varint(data, position + 1)
        end = position + size
        if end > len(data):
            raise MalformedMetrics("they end too early")
        parts.append(_field(_RESOURCE_METRICS, data[position:end] + resource))
        position = end
    return b"".join(parts)


def _field(tag: int, content: bytes) -> bytes:
    size, encoded = len(content), bytearray([tag])
    while size > 127:
        encoded.append(size & 127 | 128)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + content


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise MalformedMetrics("a length does not end")


# Forward pushed metrics to a collector with OTLP over HTTP, in a separate thread.

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


# Metrics subscriptions of clients and acceptance of pushes, by Kafka's rules (KIP-714). Pure.

DEFAULT_INTERVAL_MS = 300_000
# In order of preference.
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
_ALL = "*"
_NO_ID = bytes(16)
_RESERVED = (_NO_ID, bytes(15) + b"\x01")
_MOST_INSTANCES = 16_384  # as in Kafka


class ClientFacts(NamedTuple):
    """Client attributes that select subscriptions, named as in their settings."""

    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Instance:
    """One client. `subscriptions` is the version of the subscriptions it was matched with."""

    __slots__ = ("facts", "interval_ms", "is_terminating", "last_error", "last_get", "last_push", "metrics",
                 "subscription_id", "subscriptions")  # fmt: skip

    def __init__(
        self,
        facts: ClientFacts,
        subscriptions: int,
        metrics: list[str],
        interval_ms: int,
        subscription_id: int,
    ) -> None:
        self.facts = facts
        self.subscriptions = subscriptions
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.subscription_id = subscription_id
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.last_get: float = float("-inf")
        self.last_push: float = float("-inf")


class Subscriptions:
    """Subscriptions of the operators, and the clients they were sent to. Owner: the event loop."""

    def __init__(self, configs: Callable[[], Mapping[str, Mapping[str, str]]]) -> None:
        """`configs` returns the current subscriptions by name."""
        self._configs = configs
        self._seen: dict[str, dict[str, str]] | None = None
        self._version = 0
        self._wanted: list[tuple[dict[str, re.Pattern[str]], list[str], int]] = []
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._instances)

    def ask(self, client_id: bytes, facts: ClientFacts, now_ms: int) -> tuple[bytes, Instance]:
        """Return the metrics to push, assigning an id to a new client. Raises KafkaError for too frequent requests."""
        if client_id == _NO_ID:
            client_id = uuid.uuid4().bytes
        instance = self._instance(client_id, facts)
        recently = now_ms - max(instance.last_get, instance.last_push) < instance.interval_ms
        mends = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if recently and instance.last_error not in mends:
            raise self._failed(instance, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_get = now_ms
        instance.last_error = ErrorCode.NONE
        return client_id, instance

    def check_push(
        self,
        client_id: bytes,
        facts: ClientFacts,
        *,
        subscription_id: int,
        terminating: bool,
        codec: int,
        size: int,
        max_size: int,
        now_ms: int,
    ) -> None:
        """Raise KafkaError if these metrics must not be accepted."""
        if client_id in _RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client instance id is missing")
        instance = self._instance(client_id, facts)
        if instance.is_terminating:
            raise self._failed(instance, ErrorCode.INVALID_REQUEST)
        is_first = instance.last_get > instance.last_push
        if not is_first and now_ms - instance.last_push < instance.interval_ms and not terminating:
            raise self._failed(instance, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_push = now_ms
        if subscription_id != instance.subscription_id:
            raise self._failed(instance, ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if codec not in (Codec.NONE, *ACCEPTED_CODECS):
            raise self._failed(instance, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if size > max_size:
            raise self._failed(instance, ErrorCode.TELEMETRY_TOO_LARGE)
        instance.is_terminating = terminating
        instance.last_error = ErrorCode.NONE

    @staticmethod
    def _failed(instance: Instance, code: ErrorCode) -> KafkaError:
        instance.last_error = code
        return KafkaError(code)

    def _instance(self, client_id: bytes, facts: ClientFacts) -> Instance:
        self._follow_configs()
        known = self._instances.get(client_id)
        if known is not None and known.subscriptions == self._version:
            self._instances.move_to_end(client_id)
            return known
        metrics, interval_ms = self._match(client_id, facts if known is None else known.facts)
        text = f"[{', '.join(metrics)}]{interval_ms}"
        number = crc32c(text.encode()) ^ crc32c(client_id)
        signed = number - (1 << 32) if number >= 1 << 31 else number
        instance = self._instances[client_id] = Instance(facts, self._version, metrics, interval_ms, signed)
        if known is not None:
            instance.last_error = known.last_error
        self._instances.move_to_end(client_id)
        if len(self._instances) > _MOST_INSTANCES:
            self._instances.popitem(last=False)
        return instance

    def _match(self, client_id: bytes, facts: ClientFacts) -> tuple[list[str], int]:
        of_client = {**facts._asdict(), "client_instance_id": kafka_uuid(client_id)}
        found: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        matched = False
        for patterns, metrics, every_ms in self._wanted:
            if metrics and all(pattern.fullmatch(of_client[name]) for name, pattern in patterns.items()):
                found.update(metrics)
                interval_ms = min(interval_ms, every_ms) if matched else every_ms
                matched = True
        return ([_ALL] if _ALL in found else sorted(found)), interval_ms

    def _follow_configs(self) -> None:
        """Refresh after config changes; compared on each request, one per client and interval."""
        configs = self._configs()
        if self._seen == configs:
            return
        self._seen = {name: dict(values) for name, values in configs.items()}
        self._version += 1
        self._wanted = [subscription_of(values) for values in configs.values()]


def kafka_uuid(data: bytes) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(data).decode().rstrip("=")


# Client metrics, enabled if a collector is configured.

#: APIs served only with a collector.
KEYS = (71, 72)


class ClientTelemetry:
    def __init__(self, endpoint: str, config: BrokerConfig, image: ClusterImage) -> None:
        self.max_bytes = config.get_int("telemetry.max.bytes")
        self.subscriptions = Subscriptions(lambda: image.client_metrics)
        self.forwarder = Forwarder(endpoint, self.max_bytes)

    @classmethod
    def of(cls, config: BrokerConfig, image: ClusterImage) -> ClientTelemetry | None:
        """Return None without a collector. Kafka serves these APIs only with a metrics receiver as well."""
        endpoint = config.get_optional_str("telemetry.otlp.endpoint")
        if not endpoint:
            return None
        try:
            return cls(endpoint, config, image)
        except ValueError as error:
            raise ConfigError(f"telemetry.otlp.endpoint: {error}.") from None

    def lines(self) -> Iterator[str]:
        name = "ottla_client_telemetry"
        yield gauge(f"{name}_instances", "Clients with a metrics subscription.", len(self.subscriptions))
        counts: Mapping[str, tuple[int, str]] = {
            "exported": (self.forwarder.exported, "Pushes that the collector has taken."),
            "failed": (self.forwarder.failed, "Pushes that it has not taken, or that were not understood."),
            "dropped": (self.forwarder.dropped, "Pushes that came while too many waited."),
        }
        for each, (count, about) in counts.items():
            yield counter(f"{name}_{each}_total", about, count)


def telemetry(broker: Broker) -> ClientTelemetry:
    assert broker.telemetry is not None, "these APIs are served only with it"
    return broker.telemetry
