"""Topic configurations of Kafka 4.3, and the broker configurations that provide their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ottla import table_settings as tables
from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    DOUBLE,
    INT,
    INTERNAL,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    UNLISTED,
    ConfigDef,
    InvalidValue,
    OneOf,
    PartitionSpec,
    Pattern,
    Range,
    ThrottledReplicas,
    config_table,
    parse_value,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import MIRROR_LINK, MIRROR_PROMOTED, MIRROR_TOPIC_ID, PROMOTING

_NOTHING: Mapping[str, str] = MappingProxyType({})
_WEEK_MS = str(7 * 24 * 3600 * 1000)

CLEANUP_POLICIES = OneOf(("compact", "delete"))
COMPRESSION_TYPES = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
TIMESTAMP_TYPES = OneOf(("CreateTime", "LogAppendTime"))
GZIP_LEVELS = Range(1, 9, also=-1)
LZ4_LEVELS = Range(1, 17)
ZSTD_LEVELS = Range(-131072, 22)

# Confluent's well-known names: see ottla/broker/requests/schema_validation.py.
KEY_VALIDATION, VALUE_VALIDATION = "confluent.key.schema.validation", "confluent.value.schema.validation"
SCHEMA_REGISTRY_URL = "confluent.schema.registry.url"
KEY_STRATEGY, VALUE_STRATEGY = "confluent.key.subject.name.strategy", "confluent.value.subject.name.strategy"
_STRATEGIES = "io.confluent.kafka.serializers.subject"
TOPIC_NAME = f"{_STRATEGIES}.TopicNameStrategy"
RECORD_NAME = f"{_STRATEGIES}.RecordNameStrategy"
TOPIC_RECORD_NAME = f"{_STRATEGIES}.TopicRecordNameStrategy"
SUBJECT_STRATEGIES = OneOf((TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME))

# Ottla's own: see docs/how-to/mirror-topics.md.
MIRROR_ENDS = Pattern(rf"|{PROMOTING}|\d+:\d+(,\d+:\d+)*", f"{PROMOTING}, or partition:offset pairs")
TOPIC_ID = Pattern(r"|[A-Za-z0-9_-]{22}", "a topic id as kafka-topics shows it")

# Topics as tables: see docs/reference/tables.md.
TABLE_CATALOG = Pattern(tables.CATALOG_PATTERN, tables.CATALOG_EXPECTS)
TABLE_NAME = Pattern(tables.NAME_PATTERN, tables.NAME_EXPECTS)
TABLE_NAMESPACE = Pattern(tables.NAMESPACE_PATTERN, tables.NAMESPACE_EXPECTS)

SEGMENT_BYTES = Range(1048576, once_low=14)
THROTTLED = ThrottledReplicas()

# Name, type, default, valid values, documentation.
# fmt: off
TOPIC_CONFIGS: dict[str, ConfigDef] = config_table([
    ("cleanup.policy",          LIST,    "delete",   CLEANUP_POLICIES,
     "Treatment of old segments: delete drops them by age and size, compact keeps the last record of each key, "
     "both do both, and an empty list keeps everything."),
    ("compression.gzip.level",  INT,     "-1",       GZIP_LEVELS, "How hard gzip tries, -1 being its own choice."),
    ("compression.lz4.level",   INT,     "9",        LZ4_LEVELS,  "How hard lz4 tries."),
    ("compression.type",        STRING,  "producer", COMPRESSION_TYPES, "The codec that batches are stored with; producer keeps whatever the producer chose."),
    ("compression.zstd.level",  INT,     "3",        ZSTD_LEVELS, "How hard zstd tries."),
    (KEY_STRATEGY,              STRING,  TOPIC_NAME, SUBJECT_STRATEGIES, "The subject that the schemas of keys must be registered under.", UNLISTED),
    (KEY_VALIDATION,            BOOLEAN, "false",    None,        "Refuse records whose key has no schema in the registry.", UNLISTED),
    (VALUE_STRATEGY,            STRING,  TOPIC_NAME, SUBJECT_STRATEGIES, "The subject that the schemas of values must be registered under.", UNLISTED),
    (VALUE_VALIDATION,          BOOLEAN, "false",    None,        "Refuse records whose value has no schema in the registry.", UNLISTED),
    ("delete.retention.ms",     LONG,    "86400000", Range(0), "How long a tombstone stays in a compacted topic, so that slow readers still see the deletion."),
    ("errors.deadletterqueue.group.enable", BOOLEAN, "false", None, "Let share groups use the topic for their dead letters."),
    ("file.delete.delay.ms",    LONG,    "60000",    Range(0),    "How long a segment that was dropped keeps its files before they are removed."),
    ("flush.messages",          LONG,    LONG_MAX,   Range(1),    "Force an fsync after this many records."),
    ("flush.ms",                LONG,    LONG_MAX,   Range(0),    "Force an fsync after this many milliseconds."),
    ("follower.replication.throttled.replicas", LIST,    "",         THROTTLED,   "The replicas whose copying is slowed down on the follower's side."),
    ("index.interval.bytes",    INT,     "4096",     Range(0),    "Bytes of log between two entries of the offset index."),
    ("internal.segment.bytes",  INT,     None,       None,        "Segment size without the lower bound of segment.bytes, for tests.", INTERNAL),
    ("leader.replication.throttled.replicas", LIST,    "",         THROTTLED,   "The replicas whose copying is slowed down on the leader's side."),
    ("local.retention.bytes",   LONG,    "-2",       Range(-2),   "Bytes kept locally by a topic with tiered storage; -2 means retention.bytes."),
    ("local.retention.ms",      LONG,    "-2",       Range(-2),   "Time kept locally by a topic with tiered storage; -2 means retention.ms."),
    ("max.compaction.lag.ms",   LONG,    LONG_MAX,   Range(1),    "A record of a compacted topic is considered for compaction after this time at the latest."),
    ("max.decompressed.message.bytes", INT,     "2147483639", Range(1),  "The largest record of a compressed batch, decompressed; the broker reads all records to check it."),
    ("max.message.bytes",       INT,     "1048588",  Range(0),    "The largest record batch that is accepted, as it arrives, after compression."),
    ("message.timestamp.after.max.ms", LONG,    "3600000",  Range(0),    "Maximum time that a record's create time may be ahead of the broker's clock."),
    ("message.timestamp.before.max.ms", LONG,    LONG_MAX,   Range(0),    "Maximum time that a record's create time may be behind the broker's clock."),
    ("message.timestamp.type",  STRING,  "CreateTime", TIMESTAMP_TYPES, "Whether a record carries the time its producer gave or the time it was appended."),
    ("min.cleanable.dirty.ratio", DOUBLE,  "0.5",      Range(0, 1), "The share of a compacted log that has to be uncompacted before the cleaner takes it up."),
    ("min.compaction.lag.ms",   LONG,    "0",        Range(0),    "The least time a record stays as it is before compaction may drop it."),
    ("min.insync.replicas",     INT,     "1",        Range(1),    "With acks=all, a write is refused while fewer replicas than this are in sync."),
    (MIRROR_LINK,               STRING,  "",         None,        "The mirror link that alone writes to the topic; empty for an ordinary topic.", UNLISTED),
    (MIRROR_PROMOTED,           STRING,  "",         MIRROR_ENDS, "End offsets of the mirrored records, as partition:offset pairs, after promotion to an ordinary topic.", UNLISTED),
    (MIRROR_TOPIC_ID,           STRING,  "",         TOPIC_ID,    "The id of the source's topic, which a mirror topic is created with.", UNLISTED),
    *((name, type_, tables.DEFAULTS.get(name), validator, documentation, UNLISTED) for name, type_, validator, documentation in [
        (tables.FORMAT,                STRING, OneOf(tables.FORMATS), "The format of the table that the topic is written to; unset means that the topic is no table."),
        (tables.CATALOG,               STRING, TABLE_CATALOG,         "The name of the table's catalog, whose properties the table job knows."),
        (tables.NAMESPACE,             STRING, TABLE_NAMESPACE,       "The namespace of the table in its catalog."),
        (tables.NAME,                  STRING, TABLE_NAME,            "The name of the table; empty for the name of the topic."),
        (tables.DEAD_LETTER_NAME,      STRING, TABLE_NAME,            "The name of the table of records that do not fit; empty for the name of the table with ~dlq."),
        (tables.MODE,                  STRING, OneOf(tables.MODES),   "The columns of the table: the value as bytes, by the schema of each record, by the latest schema, or inferred from JSON."),
        (tables.WRITE_MODE,            STRING, OneOf(tables.WRITE_MODES), "Whether the table has a row for each record, or the latest row of each key."),
        (tables.PARTITION_SPEC,        STRING, PartitionSpec(),       "The partitions of a new table, such as day(__timestamp), bucket(16, customer)."),
        (tables.TARGET_LAG_MS,         LONG,   Range(tables.LEAST[tables.TARGET_LAG_MS]), "How far the table may be behind the topic; the table job commits this often."),
        (tables.SNAPSHOT_RETENTION_MS, LONG,   Range(-1),             "The age at which a snapshot of the table expires; -1 is no limit."),
        (tables.SNAPSHOTS_KEPT,        INT,    Range(tables.LEAST[tables.SNAPSHOTS_KEPT]), "Snapshots that are kept whatever their age."),
        (tables.COMPACTION_MIN_FILES,  INT,    Range(tables.LEAST[tables.COMPACTION_MIN_FILES]), "The number of small files at which they are merged; 0 never merges them."),
        (tables.TARGET_FILE_BYTES,     LONG,   Range(tables.LEAST[tables.TARGET_FILE_BYTES]), "The size of data files that writing and compaction aim at."),
    ]),
    ("preallocate",             BOOLEAN, "false",    None,        "Reserve a new segment's full size on disk at once."),
    ("remote.copy.lag.bytes",   LONG,    "-1",       Range(-1),   "Bytes behind the newest record before a segment is copied to tiered storage; Ottla copies it as soon as it is finished."),
    ("remote.copy.lag.ms",      LONG,    "0",        Range(-1),   "Age before a segment is copied to tiered storage; Ottla copies it as soon as it is finished."),
    ("remote.log.copy.disable", BOOLEAN, "false",    None,        "Stop copying segments to tiered storage, keep reading it."),
    ("remote.log.delete.on.disable", BOOLEAN, "false",    None,        "Delete the tiered data when tiered storage is disabled for the topic."),
    ("remote.storage.enable",   BOOLEAN, "false",    None,        "Copy finished segments to remote storage, and serve them from there."),
    ("retention.bytes",         LONG,    "-1",       None,      "With cleanup.policy delete, the size at which a partition's old segments go; -1 is no limit."),
    ("retention.ms",            LONG,    _WEEK_MS,   Range(-1),   "With cleanup.policy delete, the age at which a segment goes; -1 is no limit."),
    ("segment.bytes",           INT,     "1073741824", SEGMENT_BYTES, "The size at which a segment is closed and the next one begun."),
    ("segment.index.bytes",     INT,     "10485760", Range(4),    "The size an index file may reach before the segment is rolled."),
    ("segment.jitter.ms",       LONG,    "0",        Range(0),    "The most that is taken off segment.ms at random, so that not all segments roll at once."),
    ("segment.ms",              LONG,    _WEEK_MS,   Range(1),    "The age at which a segment is closed even though it is not full."),
    ("unclean.leader.election.enable", BOOLEAN, "false", None, "Let a replica that is not in sync lead when no other is left, at the price of losing records."),
])
# fmt: on


class BrokerSynonym(NamedTuple):
    name: str
    factor: int = 1  # converts the broker config's unit to the topic config's


_HOUR, _MINUTE = 3_600_000, 60_000


def _synonyms(*names: str | tuple[str, int]) -> tuple[BrokerSynonym, ...]:
    return tuple(BrokerSynonym(name) if isinstance(name, str) else BrokerSynonym(*name) for name in names)


# In order of precedence. Topic configurations missing here have no broker counterpart.
# fmt: off
TOPIC_SYNONYMS: dict[str, tuple[BrokerSynonym, ...]] = {
    "cleanup.policy":                  _synonyms("log.cleanup.policy"),
    "compression.gzip.level":          _synonyms("compression.gzip.level"),
    "compression.lz4.level":           _synonyms("compression.lz4.level"),
    "compression.type":                _synonyms("compression.type"),
    "compression.zstd.level":          _synonyms("compression.zstd.level"),
    "delete.retention.ms":             _synonyms("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms":            _synonyms("log.segment.delete.delay.ms"),
    "flush.messages":                  _synonyms("log.flush.interval.messages"),
    "flush.ms":                        _synonyms("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes":            _synonyms("log.index.interval.bytes"),
    "local.retention.bytes":           _synonyms("log.local.retention.bytes"),
    "local.retention.ms":              _synonyms("log.local.retention.ms"),
    "remote.copy.lag.bytes":           _synonyms("log.remote.copy.lag.bytes"),
    "remote.copy.lag.ms":              _synonyms("log.remote.copy.lag.ms"),
    "max.compaction.lag.ms":           _synonyms("log.cleaner.max.compaction.lag.ms"),
    "max.decompressed.message.bytes":  _synonyms("max.decompressed.message.bytes"),
    "max.message.bytes":               _synonyms("message.max.bytes"),
    "message.timestamp.after.max.ms":  _synonyms("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _synonyms("log.message.timestamp.before.max.ms"),
    "message.timestamp.type":          _synonyms("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio":       _synonyms("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms":           _synonyms("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas":             _synonyms("min.insync.replicas"),
    "preallocate":                     _synonyms("log.preallocate"),
    "retention.bytes":                 _synonyms("log.retention.bytes"),
    "retention.ms":                    _synonyms("log.retention.ms", ("log.retention.minutes", _MINUTE), ("log.retention.hours", _HOUR)),
    "segment.bytes":                   _synonyms("log.segment.bytes"),
    "segment.index.bytes":             _synonyms("log.index.size.max.bytes"),
    "segment.jitter.ms":               _synonyms("log.roll.jitter.ms", ("log.roll.jitter.hours", _HOUR)),
    "segment.ms":                      _synonyms("log.roll.ms", ("log.roll.hours", _HOUR)),
    "unclean.leader.election.enable":  _synonyms("unclean.leader.election.enable"),
}
# fmt: on


def validate_topic_configs(configs: Mapping[str, str | None], before: Mapping[str, str] = _NOTHING) -> None:
    """Reject values that Kafka rejects for a new or altered topic. Raises KafkaError(INVALID_CONFIG).

    Values unchanged since `before` are not checked again: they may come from Kafka 3.9, which had more names and wider
    ranges.
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
    if (reason := tables.contradiction(configs)) is not None:
        raise _invalid(reason)


def check_remote_storage(
    values: Mapping[str, object], before: Mapping[str, str], *, is_system_enabled: bool
) -> None:
    """Reject settings of tiered storage as Kafka does. `values` are a topic's effective values.

    Raises KafkaError(INVALID_CONFIG).
    """
    if not values["remote.storage.enable"]:
        was_enabled = before.get("remote.storage.enable", "").strip().lower() == "true"
        if was_enabled and not values["remote.log.delete.on.disable"]:
            raise _invalid(
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote "
                "data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If "
                "you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if not is_system_enabled:
        raise _invalid(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    policy = values["cleanup.policy"]
    if policy not in ([], ["delete"]):
        raise _invalid(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    for unit in ("bytes", "ms"):
        whole, local = values[f"retention.{unit}"], values[f"local.retention.{unit}"]
        assert isinstance(whole, int)
        assert isinstance(local, int)
        if whole > -1 and local != -2:
            fault = None
            if local == -1:
                fault = f"Value must not be -1 as retention.{unit} value is set as {whole}."
            elif local > whole:
                fault = f"Value must not be more than retention.{unit} property value: {whole}"
            if fault is not None:
                raise _invalid(f"Invalid value {local} for configuration local.retention.{unit}: {fault}")
    for unit in ("ms", "bytes"):
        if values["remote.log.copy.disable"] and values[f"local.retention.{unit}"] not in (
            -2,
            values[f"retention.{unit}"],
        ):
            raise _invalid(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` "
                "must be set to the identical value because there will be no more logs copied to the remote storage."
            )


def check_schema_registry(configs: Mapping[str, str | None], registry_urls: Sequence[str]) -> None:
    """Raises KafkaError(INVALID_CONFIG) if schema validation is requested without a schema registry."""
    for name in (KEY_VALIDATION, VALUE_VALIDATION):
        if not registry_urls and (configs.get(name) or "").strip().lower() == "true":
            raise _invalid(
                f"{name} needs a schema registry, and the broker knows none: set {SCHEMA_REGISTRY_URL} in server.properties."
            )


def check_mirror_link(after: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Reject mirror settings on an existing topic: it has other writers, or already mirrors another source."""
    for name in (MIRROR_LINK, MIRROR_TOPIC_ID):
        if after.get(name) and after[name] != before.get(name):
            raise _invalid(f"{name} can only be set when a topic is created.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
