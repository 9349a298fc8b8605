"""Broker configurations of logs and of their replication. Most of the log's can be overridden per topic."""

from __future__ import annotations

from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    ConfigDef,
    NoDuplicates,
    Range,
)
from ottla.metadata.configs.topic_configs import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    GZIP_LEVELS,
    LZ4_LEVELS,
    TIMESTAMP_TYPES,
    ZSTD_LEVELS,
)

LOG_CONFIGS = [
    # Directories
    ConfigDef(
        "log.dir", LIST, "/tmp/kafka-logs", "Where logs are kept unless log.dirs says it.", NoDuplicates()
    ),
    ConfigDef("log.dirs", LIST, None, "The directories that logs are spread over.", NoDuplicates()),
    ConfigDef(
        "log.dir.failure.timeout.ms", LONG, "30000", "How long to try to report a failed directory.", Range(1)
    ),
    ConfigDef(
        "num.recovery.threads.per.data.dir",
        INT,
        "2",
        "Threads per directory that open logs at the start and flush them at the end.",
        Range(1),
        CLUSTER_WIDE,
    ),
    # Segments
    ConfigDef(
        "log.segment.bytes",
        INT,
        "1073741824",
        "The size at which a segment is closed.",
        Range(1048576, once_low=14),
        CLUSTER_WIDE,
    ),
    ConfigDef("log.roll.ms", LONG, None, "The age at which a segment is closed.", None, CLUSTER_WIDE),
    ConfigDef(
        "log.roll.hours",
        INT,
        "168",
        "The age in hours at which a segment is closed, where log.roll.ms is not set.",
        Range(1),
    ),
    ConfigDef(
        "log.roll.jitter.ms",
        LONG,
        None,
        "The most that is taken off log.roll.ms at random.",
        None,
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.roll.jitter.hours",
        INT,
        "0",
        "The most that is taken off log.roll.hours at random, where log.roll.jitter.ms is not set.",
        Range(0),
    ),
    ConfigDef(
        "log.segment.delete.delay.ms",
        LONG,
        "60000",
        "How long the files of a dropped segment are kept.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.index.interval.bytes",
        INT,
        "4096",
        "Bytes of log between two entries of the offset index.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.index.size.max.bytes",
        INT,
        "10485760",
        "The largest an index may become.",
        Range(4),
        CLUSTER_WIDE,
    ),
    ConfigDef("log.preallocate", BOOLEAN, "false", "Reserve a segment's size at once.", None, CLUSTER_WIDE),
    # Retention
    ConfigDef(
        "log.retention.bytes", LONG, "-1", "The size a partition may reach; -1: any.", None, CLUSTER_WIDE
    ),
    ConfigDef(
        "log.retention.ms", LONG, None, "The age at which a segment goes; -1: none.", None, CLUSTER_WIDE
    ),
    ConfigDef(
        "log.retention.minutes",
        INT,
        None,
        "The age in minutes at which a segment goes, where log.retention.ms is not set.",
    ),
    ConfigDef(
        "log.retention.hours",
        INT,
        "168",
        "The age in hours at which a segment goes, where neither milliseconds nor minutes are set.",
    ),
    ConfigDef(
        "log.retention.check.interval.ms", LONG, "300000", "How often old segments are looked for.", Range(1)
    ),
    ConfigDef(
        "log.local.retention.bytes",
        LONG,
        "-2",
        "Bytes kept locally beside tiered storage; -2 means all that is kept.",
        Range(-2),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.local.retention.ms",
        LONG,
        "-2",
        "Time kept locally beside tiered storage; -2 means all that is kept.",
        Range(-2),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleanup.policy",
        LIST,
        "delete",
        "What happens to old segments: delete, compact, both, or nothing.",
        CLEANUP_POLICIES,
        CLUSTER_WIDE,
    ),
    # Flushing
    ConfigDef(
        "log.flush.interval.messages", LONG, LONG_MAX, "Records between two fsyncs.", Range(1), CLUSTER_WIDE
    ),
    ConfigDef("log.flush.interval.ms", LONG, None, "Milliseconds between two fsyncs.", None, CLUSTER_WIDE),
    ConfigDef(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "How often a log is asked whether it is time for an fsync.",
    ),
    ConfigDef(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        "60000",
        "How often recovery points are noted.",
        Range(0),
    ),
    ConfigDef(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        "60000",
        "How often log start offsets are noted.",
        Range(0),
    ),
    # Messages
    ConfigDef(
        "message.max.bytes",
        INT,
        "1048588",
        "The largest record batch that is accepted.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether records carry their producer's time or the time of the append.",
        TIMESTAMP_TYPES,
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a record's time may lie in the past.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.message.timestamp.after.max.ms",
        LONG,
        "3600000",
        "How far a record's time may lie in the future.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "compression.type",
        STRING,
        "producer",
        "The codec of stored batches; producer keeps the one they came with.",
        COMPRESSION_TYPES,
        CLUSTER_WIDE,
    ),
    ConfigDef("compression.gzip.level", INT, "-1", "How hard gzip tries.", GZIP_LEVELS, CLUSTER_WIDE),
    ConfigDef("compression.lz4.level", INT, "9", "How hard lz4 tries.", LZ4_LEVELS, CLUSTER_WIDE),
    ConfigDef("compression.zstd.level", INT, "3", "How hard zstd tries.", ZSTD_LEVELS, CLUSTER_WIDE),
    # Cleaner
    ConfigDef("log.cleaner.enable", BOOLEAN, "true", "Compact the topics that ask for it."),
    ConfigDef("log.cleaner.threads", INT, "1", "Threads that compact.", Range(0), CLUSTER_WIDE),
    ConfigDef(
        "log.cleaner.backoff.ms",
        LONG,
        "15000",
        "How long the cleaner rests when no log needs it.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        "134217728",
        "Memory for the keys of one compaction run.",
        None,
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.io.buffer.size",
        INT,
        "524288",
        "Memory with which the cleaner reads and writes.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        "0.9",
        "How full the cleaner's map of keys may get.",
        None,
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        "1.7976931348623157E308",
        "How fast compaction may read and write.",
        None,
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.delete.retention.ms",
        LONG,
        "86400000",
        "How long tombstones stay in compacted topics.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        "0",
        "The least time a record stays before compaction may drop it.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "The most time a record waits to be considered for compaction.",
        Range(1),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        "0.5",
        "The uncompacted share of a log that makes it worth compacting.",
        Range(0, 1),
        CLUSTER_WIDE,
    ),
    # Replication
    ConfigDef(
        "min.insync.replicas",
        INT,
        "1",
        "In-sync replicas without which a write with acks=all is refused.",
        Range(1),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "Let a replica that is not in sync lead when no other is left.",
        None,
        CLUSTER_WIDE,
    ),
    ConfigDef("auto.leader.rebalance.enable", BOOLEAN, "true", "Give leadership back to preferred replicas."),
    ConfigDef(
        "leader.imbalance.check.interval.seconds",
        LONG,
        "300",
        "How often the controller looks whether leaders are balanced.",
        Range(1),
    ),
    ConfigDef(
        "leader.imbalance.per.broker.percentage",
        INT,
        "10",
        "The share of leaders in the wrong place that is tolerated per broker.",
    ),
    ConfigDef(
        "num.replica.fetchers",
        INT,
        "1",
        "Fetchers with which a follower copies from one leader.",
        Range(1),
        CLUSTER_WIDE,
    ),
    ConfigDef("num.replica.alter.log.dirs.threads", INT, None, "Threads that move logs between directories."),
    ConfigDef(
        "replica.fetch.backoff.ms",
        INT,
        "1000",
        "How long a follower rests after a fetch that failed.",
        Range(0),
    ),
    ConfigDef(
        "replica.fetch.max.bytes", INT, "1048576", "Bytes per partition of a follower's fetch.", Range(0)
    ),
    ConfigDef("replica.fetch.min.bytes", INT, "1", "Bytes a follower's fetch waits for."),
    ConfigDef(
        "replica.fetch.response.max.bytes",
        INT,
        "10485760",
        "Bytes of one whole response to a follower's fetch.",
        Range(0),
    ),
    ConfigDef("replica.fetch.wait.max.ms", INT, "500", "The longest that a follower's fetch waits."),
    ConfigDef(
        "replica.high.watermark.checkpoint.interval.ms", LONG, "5000", "How often high watermarks are noted."
    ),
    ConfigDef("replica.lag.time.max.ms", LONG, "30000", "A follower that lags this long leaves the ISR."),
    ConfigDef("replica.selector.class", STRING, None, "How consumers are sent to a replica near them."),
    ConfigDef("replica.socket.receive.buffer.bytes", INT, "65536", "SO_RCVBUF of a follower's connection."),
    ConfigDef("replica.socket.timeout.ms", INT, "30000", "How long a follower waits for a response."),
]
