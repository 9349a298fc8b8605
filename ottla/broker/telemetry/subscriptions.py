"""Metrics subscriptions of clients and acceptance of pushes, by Kafka's rules (KIP-714). Pure."""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from crc32c import crc32c

from ottla.metadata.configs.client_metrics import subscription_of
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError

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
