"""The topic configurations of Kafka 4.3, and the broker configurations that stand in for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    ConfigDef,
    InvalidValue,
    OneOf,
    Range,
    ThrottledReplicas,
    by_name,
    parse_value,
)
from ottla.protocol.errors import ErrorCode, KafkaError

_NOTHING: Mapping[str, str] = MappingProxyType({})
_WEEK_MS = str(7 * 24 * 3600 * 1000)

CLEANUP_POLICIES = OneOf(("compact", "delete"))
COMPRESSION_TYPES = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
TIMESTAMP_TYPES = OneOf(("CreateTime", "LogAppendTime"))
GZIP_LEVELS = Range(1, 9, also=-1)
LZ4_LEVELS = Range(1, 17)
ZSTD_LEVELS = Range(-131072, 22)

TOPIC_CONFIGS: dict[str, ConfigDef] = by_name(
    [
        ConfigDef(
            "cleanup.policy",
            LIST,
            "delete",
            "What happens to old segments: delete drops them by age and size, compact keeps the last record "
            "of each key, both do both, and an empty list keeps everything.",
            CLEANUP_POLICIES,
        ),
        ConfigDef(
            "compression.gzip.level", INT, "-1", "How hard gzip tries, -1 being its own choice.", GZIP_LEVELS
        ),
        ConfigDef("compression.lz4.level", INT, "9", "How hard lz4 tries.", LZ4_LEVELS),
        ConfigDef(
            "compression.type",
            STRING,
            "producer",
            "The codec that batches are stored with; producer keeps whatever the producer chose.",
            COMPRESSION_TYPES,
        ),
        ConfigDef("compression.zstd.level", INT, "3", "How hard zstd tries.", ZSTD_LEVELS),
        ConfigDef(
            "delete.retention.ms",
            LONG,
            "86400000",
            "How long a tombstone stays in a compacted topic, so that slow readers still see the deletion.",
            Range(0),
        ),
        ConfigDef(
            "file.delete.delay.ms",
            LONG,
            "60000",
            "How long a segment that was dropped keeps its files before they are removed.",
            Range(0),
        ),
        ConfigDef("flush.messages", LONG, LONG_MAX, "Force an fsync after this many records.", Range(1)),
        ConfigDef("flush.ms", LONG, LONG_MAX, "Force an fsync after this many milliseconds.", Range(0)),
        ConfigDef(
            "follower.replication.throttled.replicas",
            LIST,
            "",
            "The replicas whose copying is slowed down on the follower's side.",
            ThrottledReplicas(),
        ),
        ConfigDef(
            "index.interval.bytes",
            INT,
            "4096",
            "How many bytes of log lie between two entries of the offset index.",
            Range(0),
        ),
        ConfigDef(
            "internal.segment.bytes",
            INT,
            None,
            "Segment size without the lower bound of segment.bytes, for tests.",
            internal=True,
        ),
        ConfigDef(
            "leader.replication.throttled.replicas",
            LIST,
            "",
            "The replicas whose copying is slowed down on the leader's side.",
            ThrottledReplicas(),
        ),
        ConfigDef(
            "local.retention.bytes",
            LONG,
            "-2",
            "Bytes kept locally by a topic with tiered storage; -2 means retention.bytes.",
            Range(-2),
        ),
        ConfigDef(
            "local.retention.ms",
            LONG,
            "-2",
            "Time kept locally by a topic with tiered storage; -2 means retention.ms.",
            Range(-2),
        ),
        ConfigDef(
            "max.compaction.lag.ms",
            LONG,
            LONG_MAX,
            "A record of a compacted topic is considered for compaction after this time at the latest.",
            Range(1),
        ),
        ConfigDef(
            "max.message.bytes",
            INT,
            "1048588",
            "The largest record batch that is accepted, as it arrives, after compression.",
            Range(0),
        ),
        ConfigDef(
            "message.timestamp.after.max.ms",
            LONG,
            "3600000",
            "How far ahead of the broker's clock a record's create time may be.",
            Range(0),
        ),
        ConfigDef(
            "message.timestamp.before.max.ms",
            LONG,
            LONG_MAX,
            "How far behind the broker's clock a record's create time may be.",
            Range(0),
        ),
        ConfigDef(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            "Whether a record carries the time its producer gave or the time it was appended.",
            TIMESTAMP_TYPES,
        ),
        ConfigDef(
            "min.cleanable.dirty.ratio",
            DOUBLE,
            "0.5",
            "The share of a compacted log that has to be uncompacted before the cleaner takes it up.",
            Range(0, 1),
        ),
        ConfigDef(
            "min.compaction.lag.ms",
            LONG,
            "0",
            "The least time a record stays as it is before compaction may drop it.",
            Range(0),
        ),
        ConfigDef(
            "min.insync.replicas",
            INT,
            "1",
            "With acks=all, a write is refused while fewer replicas than this are in sync.",
            Range(1),
        ),
        ConfigDef("preallocate", BOOLEAN, "false", "Reserve a new segment's full size on disk at once."),
        ConfigDef(
            "remote.log.copy.disable",
            BOOLEAN,
            "false",
            "Stop copying segments to tiered storage, keep reading it.",
        ),
        ConfigDef(
            "remote.log.delete.on.disable",
            BOOLEAN,
            "false",
            "Delete what is in tiered storage when it is switched off for the topic.",
        ),
        ConfigDef(
            "remote.storage.enable", BOOLEAN, "false", "Use tiered storage, which Ottla does not have."
        ),
        ConfigDef(
            "retention.bytes",
            LONG,
            "-1",
            "With cleanup.policy delete, the size at which a partition's old segments go; -1 is no limit.",
        ),
        ConfigDef(
            "retention.ms",
            LONG,
            _WEEK_MS,
            "With cleanup.policy delete, the age at which a segment goes; -1 is no limit.",
            Range(-1),
        ),
        ConfigDef(
            "segment.bytes",
            INT,
            "1073741824",
            "The size at which a segment is closed and the next one begun.",
            Range(1048576, once_low=14),
        ),
        ConfigDef(
            "segment.index.bytes",
            INT,
            "10485760",
            "The size an index file may reach before the segment is rolled.",
            Range(4),
        ),
        ConfigDef(
            "segment.jitter.ms",
            LONG,
            "0",
            "The most that is taken off segment.ms at random, so that not all segments roll at once.",
            Range(0),
        ),
        ConfigDef(
            "segment.ms",
            LONG,
            _WEEK_MS,
            "The age at which a segment is closed even though it is not full.",
            Range(1),
        ),
        ConfigDef(
            "unclean.leader.election.enable",
            BOOLEAN,
            "false",
            "Let a replica that is not in sync lead when no other is left, at the price of losing records.",
        ),
    ]
)


class BrokerSynonym(NamedTuple):
    name: str
    factor: int = 1  # from the broker configuration's unit to the topic configuration's


_HOUR, _MINUTE = 3_600_000, 60_000

# In order of precedence. A topic configuration that is missing here has no counterpart at the broker.
TOPIC_SYNONYMS: dict[str, tuple[BrokerSynonym, ...]] = {
    "cleanup.policy": (BrokerSynonym("log.cleanup.policy"),),
    "compression.gzip.level": (BrokerSynonym("compression.gzip.level"),),
    "compression.lz4.level": (BrokerSynonym("compression.lz4.level"),),
    "compression.type": (BrokerSynonym("compression.type"),),
    "compression.zstd.level": (BrokerSynonym("compression.zstd.level"),),
    "delete.retention.ms": (BrokerSynonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (BrokerSynonym("log.segment.delete.delay.ms"),),
    "flush.messages": (BrokerSynonym("log.flush.interval.messages"),),
    "flush.ms": (BrokerSynonym("log.flush.interval.ms"), BrokerSynonym("log.flush.scheduler.interval.ms")),
    "index.interval.bytes": (BrokerSynonym("log.index.interval.bytes"),),
    "local.retention.bytes": (BrokerSynonym("log.local.retention.bytes"),),
    "local.retention.ms": (BrokerSynonym("log.local.retention.ms"),),
    "max.compaction.lag.ms": (BrokerSynonym("log.cleaner.max.compaction.lag.ms"),),
    "max.message.bytes": (BrokerSynonym("message.max.bytes"),),
    "message.timestamp.after.max.ms": (BrokerSynonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (BrokerSynonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (BrokerSynonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (BrokerSynonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (BrokerSynonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (BrokerSynonym("min.insync.replicas"),),
    "preallocate": (BrokerSynonym("log.preallocate"),),
    "retention.bytes": (BrokerSynonym("log.retention.bytes"),),
    "retention.ms": (
        BrokerSynonym("log.retention.ms"),
        BrokerSynonym("log.retention.minutes", _MINUTE),
        BrokerSynonym("log.retention.hours", _HOUR),
    ),
    "segment.bytes": (BrokerSynonym("log.segment.bytes"),),
    "segment.index.bytes": (BrokerSynonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (BrokerSynonym("log.roll.jitter.ms"), BrokerSynonym("log.roll.jitter.hours", _HOUR)),
    "segment.ms": (BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", _HOUR)),
    "unclean.leader.election.enable": (BrokerSynonym("unclean.leader.election.enable"),),
}


def validate_topic_configs(configs: Mapping[str, str | None], before: Mapping[str, str] = _NOTHING) -> None:
    """Refuse what Kafka refuses when a topic is created or altered: KafkaError(INVALID_CONFIG).

    What stays as it was `before` is not asked again: it may be from Kafka 3.9, which had more names and wider ranges.
    """
    kept = {name for name, text in configs.items() if name in before and before[name] == text}
    if nulls := [name for name, text in configs.items() if text is None]:
        raise _invalid(f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in configs:
        if name not in TOPIC_CONFIGS and name not in kept:
            raise _invalid(f"Unknown topic config name: {name}")
    try:
        values = {
            name: parse_value(TOPIC_CONFIGS[name], text, kept=name in kept)
            for name, text in configs.items()
            if name in TOPIC_CONFIGS
        }
    except InvalidValue as error:
        raise _invalid(str(error)) from None
    least, most = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise _invalid(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if values.get("remote.storage.enable"):
        raise _invalid(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
