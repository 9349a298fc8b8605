"""Options for reading, with the names and semantics of Spark's Kafka connector, validated together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.client.cluster import TopicPartition
from ottla.client.fetch import FetchOptions
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.settings import Settings
from ottla.spark.formats.encryption_options import KEYS, PLAIN, TOPIC
from ottla.spark.formats.registered.registry_options import REGISTRY_OPTIONS, SCHEMA_OPTIONS
from ottla.spark.options import SECURITY_OPTIONS, KnownOptions, OptionError, Options
from ottla.spark.source.positions import Position, parse_offsets, parse_timestamp, parse_timestamps
from ottla.spark.source.typed_options import TypedOptions, parse_typed_options

_STRATEGIES = ("assign", "subscribe", "subscribePattern")

# fmt: off
SOURCE_OPTIONS = (
    *_STRATEGIES,
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "failOnDataLoss", "includeHeaders", "groupIdPrefix", "ottla.commit.group",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "keyFormat", "keySchema", "valueFormat", "valueSchema", "badRows", "deadLetterTopic", "timeZone",
    "jsonNumbers",
    *REGISTRY_OPTIONS, *SCHEMA_OPTIONS,
    KEYS, PLAIN, TOPIC,
)

_KNOWN = KnownOptions(
    SOURCE_OPTIONS,
    kafka=(
        *SECURITY_OPTIONS,
        "bootstrap.servers", "client.id", "default.api.timeout.ms", "fetch.max.wait.ms", "fetch.min.bytes", "group.id",
        "isolation.level", "max.partition.fetch.bytes", "request.timeout.ms", "retry.backoff.ms",
    ),
    # This consumer joins no group and keeps no buffers.
    without_effect=(
        "allow.auto.create.topics", "check.crcs", "client.dns.lookup", "client.rack", "connections.max.idle.ms",
        "exclude.internal.topics", "fetch.max.bytes", "group.instance.id", "group.protocol", "heartbeat.interval.ms",
        "max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms", "partition.assignment.strategy",
        "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms",
        "send.buffer.bytes", "session.timeout.ms",
    ),
    refused={
        "auto.offset.reset": "use startingOffsets",
        "enable.auto.commit": "offsets are kept in the checkpoint; with kafka.group.id they are committed as well",
        "interceptor.classes": "there are no interceptors",
        "key.deserializer": "use keyFormat, or DataFrame functions on the column",
        "value.deserializer": "use valueFormat, or DataFrame functions on the column",
    },
    no_path="load() takes no path: name the topic with .option('subscribe', …).",
)
# fmt: on

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_ISOLATION = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
_MAX_TRIGGER_DELAY = 15 * 60.0


@dataclass(frozen=True)
class Subscription:
    """Topics and partitions to read: exactly one of the three fields is set."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None

    def __str__(self) -> str:
        if self.topics is not None:
            return ", ".join(self.topics)
        return self.pattern or ", ".join(map(str, self.assigned or ()))


@dataclass(frozen=True)
class SourceOptions:
    settings: Settings
    subscription: Subscription
    starting: Position
    ending: Position
    fetch: FetchOptions
    fail_on_data_loss: bool = True
    include_headers: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = _MAX_TRIGGER_DELAY
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    poll_timeout: float = 120.0
    commit_group: str | None = None
    typed: TypedOptions = field(default_factory=TypedOptions)
    #: Whether each task of a batch looks up the end when it runs.
    follow: bool = False

    @property
    def isolation_level(self) -> int:
        return self.fetch.isolation_level

    @property
    def fetches_headers(self) -> bool:
        """Return True if headers are needed: requested, kept in dead letters, or used for decryption or schema ids."""
        typed = self.typed
        return (
            self.include_headers
            or typed.dead_letter_topic is not None
            or typed.decryption is not None
            or typed.is_registered
        )


def parse_options(options: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """Parse the options. Without `streaming`, skip checks that apply to only one kind of query."""
    given = Options(options, _KNOWN)
    defaults = FetchOptions()
    parsed = SourceOptions(
        settings=_settings(given),
        subscription=_subscription(given),
        starting=_starting(given, streaming),
        ending=_ending(given, streaming),
        fetch=FetchOptions(
            max_bytes=given.count("kafka.max.partition.fetch.bytes") or defaults.max_bytes,
            min_bytes=given.count("kafka.fetch.min.bytes") or defaults.min_bytes,
            max_wait_ms=given.count("kafka.fetch.max.wait.ms") or defaults.max_wait_ms,
            isolation_level=given.choice("kafka.isolation.level", _ISOLATION, READ_UNCOMMITTED),
        ),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        max_offsets_per_trigger=given.count("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=given.count("minOffsetsPerTrigger"),
        max_trigger_delay=_duration(given, "maxTriggerDelay", _MAX_TRIGGER_DELAY),
        min_partitions=given.count("minPartitions"),
        max_records_per_partition=given.count("maxRecordsPerPartition"),
        poll_timeout=given.seconds("kafkaConsumer.pollTimeoutMs", 120_000),
        commit_group=given.text("ottla.commit.group") or given.text("kafka.group.id"),
        typed=parse_typed_options(given),
        follow=_follows(given),
    )
    least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) is larger than maxOffsetsPerTrigger ({most}).")
    if parsed.follow and (parsed.min_partitions or parsed.max_records_per_partition):
        raise OptionError("endingOffsets=current cannot be used where partitions are split among tasks.")
    return parsed


def _duration(given: Options, name: str, default: float) -> float:
    text = given.text(name)
    if text is None:
        return default
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or (found[2] or "ms") not in _UNITS:
        raise OptionError(f"{name} must be a time such as 500ms, 30s or 15m, not '{text}'.")
    return int(found[1]) * _UNITS[found[2] or "ms"]


def _settings(given: Options) -> Settings:
    settings = given.client_settings()
    retries = given.count("fetchOffset.numRetries")
    interval = given.count("fetchOffset.retryIntervalMs")
    if interval is not None:
        settings = replace(settings, retry_backoff=interval / 1000)
    if retries is not None:
        settings = replace(settings, api_timeout=retries * settings.retry_backoff)
    return settings


def _subscription(given: Options) -> Subscription:
    named = [name for name in _STRATEGIES if given.text(name) is not None]
    if len(named) != 1:
        raise OptionError(
            f"Exactly one of {', '.join(_STRATEGIES)} must say what to read"
            + (f", not {' and '.join(named)}." if named else ".")
        )
    text = given.text(named[0]) or ""
    if named == ["subscribe"]:
        topics = tuple(topic.strip() for topic in text.split(",") if topic.strip())
        if not topics:
            raise OptionError("subscribe must name at least one topic.")
        return Subscription(topics=topics)
    if named == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern '{text}' is not a regular expression: {error}.") from None
        return Subscription(pattern=text)
    return Subscription(assigned=_parse_assign(text))


def _starting(given: Options, streaming: bool | None) -> Position:
    strategies = {"error": None, "latest": LATEST}
    beyond = given.choice("startingOffsetsByTimestampStrategy", strategies, None)
    position = _position(given, "starting", beyond, LATEST if streaming else EARLIEST)
    if streaming is False and LATEST in position.bounds:
        raise OptionError("startingOffsets cannot be latest in a batch query: nothing would be read.")
    return position


def _ending(given: Options, streaming: bool | None) -> Position:
    if streaming:
        for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
            if given.text(name):
                raise OptionError(f"{name} cannot be used in a streaming query, which has no end.")
    position = _position(given, "ending", LATEST, LATEST)
    if EARLIEST in position.bounds:
        raise OptionError("endingOffsets cannot be earliest: nothing would be read.")
    return position


def _follows(given: Options) -> bool:
    return (given.text("endingOffsets") or "").strip().lower() == "current"


def _position(given: Options, which: str, beyond: int | None, default: int) -> Position:
    """Parse a position. A single timestamp overrides timestamps by partition, which override offsets."""
    timestamp = given.text(f"{which}Timestamp")
    if timestamp is not None:
        return parse_timestamp(f"{which}Timestamp", timestamp, beyond)
    timestamps = given.text(f"{which}OffsetsByTimestamp")
    if timestamps is not None:
        return parse_timestamps(f"{which}OffsetsByTimestamp", timestamps, beyond)
    offsets = given.text(f"{which}Offsets")
    if offsets is not None and not (which == "ending" and _follows(given)):
        return parse_offsets(f"{which}Offsets", offsets)
    return Position(everywhere=default, option=f"{which}Offsets")


def _parse_assign(text: str) -> tuple[TopicPartition, ...]:
    try:
        topics = json.loads(text)
        assigned = tuple(
            TopicPartition(topic, int(partition))
            for topic, partitions in topics.items()
            for partition in partitions
        )
    except (ValueError, TypeError, AttributeError):
        assigned = ()
    if not assigned:
        raise OptionError(f"assign must be JSON such as {{\"topic\": [0, 1]}}, not '{text}'.")
    return assigned
