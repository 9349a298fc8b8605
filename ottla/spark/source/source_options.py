"""The options of the data source, with the names and meanings of Spark's Kafka connector, checked as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.client.cluster import TopicPartition
from ottla.client.fetch import FetchOptions
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.settings import Settings
from ottla.spark.options import client_settings
from ottla.spark.source.option_names import STRATEGIES, OptionError, check_names
from ottla.spark.source.positions import Position, parse_offsets, parse_timestamp, parse_timestamps
from ottla.spark.source.typed_options import TypedOptions, parse_typed_options

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


@dataclass(frozen=True)
class Subscription:
    """Which topics and partitions are read: exactly one of the three is there."""

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
    max_trigger_delay: float = 15 * 60
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    poll_timeout: float = 120.0
    commit_group: str | None = None
    typed: TypedOptions = field(default_factory=TypedOptions)
    #: Whether each task of a batch asks for the end when it runs.
    follow: bool = False

    @property
    def isolation_level(self) -> int:
        return self.fetch.isolation_level

    @property
    def fetches_headers(self) -> bool:
        """Dead letters keep them, whether Spark asks for them or not."""
        return self.include_headers or self.typed.dead_letter_topic is not None


def parse_options(options: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """Without `streaming`, what only one kind of query refuses is let through."""
    return _Parser(options).parse(streaming)


def wants_headers(options: Mapping[str, str]) -> bool:
    return _Parser(options).flag("includeHeaders", False)


class _Parser:
    """Looks options up in any case, and says what is wrong with one in a sentence that names it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def parse(self, streaming: bool | None) -> SourceOptions:
        check_names(self._options)
        parsed = SourceOptions(
            settings=self._settings(),
            subscription=self._subscription(),
            starting=self._starting(streaming),
            ending=self._ending(streaming),
            fetch=FetchOptions(
                max_bytes=self.count("kafka.max.partition.fetch.bytes") or FetchOptions().max_bytes,
                min_bytes=self.count("kafka.fetch.min.bytes") or FetchOptions().min_bytes,
                max_wait_ms=self.count("kafka.fetch.max.wait.ms") or FetchOptions().max_wait_ms,
                isolation_level=self._isolation_level(),
            ),
            fail_on_data_loss=self.flag("failOnDataLoss", True),
            include_headers=self.flag("includeHeaders", False),
            max_offsets_per_trigger=self.count("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=self.count("minOffsetsPerTrigger"),
            max_trigger_delay=self._duration("maxTriggerDelay", 15 * 60),
            min_partitions=self.count("minPartitions"),
            max_records_per_partition=self.count("maxRecordsPerPartition"),
            poll_timeout=(self.count("kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
            commit_group=self.text("ottla.commit.group") or self.text("kafka.group.id"),
            typed=parse_typed_options(self._options),
            follow=self._follows,
        )
        self._check_limits(parsed)
        return parsed

    # Single options

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise OptionError(f"{name} must be true or false, not '{text}'.")
        return text.strip().lower() == "true"

    def count(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.strip().isdigit() or int(text) == 0:
            raise OptionError(f"{name} must be a whole number above 0, not '{text}'.")
        return int(text)

    def _duration(self, name: str, default: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
        if found is None or (found[2] or "ms") not in _UNITS:
            raise OptionError(f"{name} must be a time such as 500ms, 30s or 15m, not '{text}'.")
        return int(found[1]) * _UNITS[found[2] or "ms"]

    # What several options say together

    def _settings(self) -> Settings:
        properties = {
            name.removeprefix("kafka."): value
            for name, value in self._options.items()
            if name.startswith("kafka.")
        }
        settings = client_settings(properties)
        retries = self.count("fetchOffset.numRetries")
        interval = self.count("fetchOffset.retryIntervalMs")
        if interval is not None:
            settings = replace(settings, retry_backoff=interval / 1000)
        if retries is not None:
            settings = replace(settings, api_timeout=retries * settings.retry_backoff)
        return settings

    def _subscription(self) -> Subscription:
        given = [name for name in STRATEGIES if self.text(name) is not None]
        if len(given) != 1:
            raise OptionError(
                f"Exactly one of {', '.join(STRATEGIES)} must say what to read"
                + (f", not {' and '.join(given)}." if given else ".")
            )
        [name] = given
        text = self.text(name) or ""
        if name == "subscribe":
            topics = tuple(topic.strip() for topic in text.split(",") if topic.strip())
            if not topics:
                raise OptionError("subscribe must name at least one topic.")
            return Subscription(topics=topics)
        if name == "subscribePattern":
            try:
                re.compile(text)
            except re.error as error:
                raise OptionError(
                    f"subscribePattern '{text}' is not a regular expression: {error}."
                ) from None
            return Subscription(pattern=text)
        return Subscription(assigned=_parse_assign(text))

    def _starting(self, streaming: bool | None) -> Position:
        strategy = (self.text("startingOffsetsByTimestampStrategy") or "error").lower()
        if strategy not in ("error", "latest"):
            raise OptionError(
                f"startingOffsetsByTimestampStrategy must be error or latest, not '{strategy}'."
            )
        beyond = LATEST if strategy == "latest" else None
        position = self._position("starting", beyond, LATEST if streaming else EARLIEST)
        if streaming is False and LATEST in position.bounds:
            raise OptionError("startingOffsets cannot be latest in a batch query: nothing would be read.")
        return position

    def _ending(self, streaming: bool | None) -> Position:
        given = [
            name
            for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
            if self.text(name)
        ]
        if streaming and given:
            raise OptionError(f"{given[0]} cannot be used in a streaming query, which has no end.")
        position = self._position("ending", LATEST, LATEST)
        if EARLIEST in position.bounds:
            raise OptionError("endingOffsets cannot be earliest: nothing would be read.")
        return position

    @property
    def _follows(self) -> bool:
        return (self.text("endingOffsets") or "").strip().lower() == "current"

    def _position(self, which: str, beyond: int | None, default: int) -> Position:
        """One timestamp goes before timestamps by partition, and those before offsets."""
        timestamp = self.text(f"{which}Timestamp")
        if timestamp is not None:
            return parse_timestamp(f"{which}Timestamp", timestamp, beyond)
        timestamps = self.text(f"{which}OffsetsByTimestamp")
        if timestamps is not None:
            return parse_timestamps(f"{which}OffsetsByTimestamp", timestamps, beyond)
        offsets = self.text(f"{which}Offsets")
        if offsets is not None and not (which == "ending" and self._follows):
            return parse_offsets(f"{which}Offsets", offsets)
        return Position(everywhere=default, option=f"{which}Offsets")

    def _isolation_level(self) -> int:
        text = (self.text("kafka.isolation.level") or "read_uncommitted").lower()
        if text not in _ISOLATION:
            raise OptionError(
                f"kafka.isolation.level must be read_committed or read_uncommitted, not '{text}'."
            )
        return _ISOLATION[text]

    def _check_limits(self, parsed: SourceOptions) -> None:
        least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError(f"minOffsetsPerTrigger ({least}) is larger than maxOffsetsPerTrigger ({most}).")
        if parsed.follow and (parsed.min_partitions or parsed.max_records_per_partition):
            raise OptionError("endingOffsets=current cannot be used where partitions are split among tasks.")


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
