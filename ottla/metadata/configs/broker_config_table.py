"""Table of all broker configurations known to Ottla, and of Kafka's names that Ottla does not need."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    INT_MAX,
    INTERNAL,
    LIST,
    LONG,
    LONG_MAX,
    NO_EFFECT,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    UNLISTED,
    ConfigDef,
    InvalidValue,
    NoDuplicates,
    OneOf,
    Range,
    Validator,
    Value,
    config_table,
)
from ottla.metadata.configs.topic_configs import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    GZIP_LEVELS,
    LZ4_LEVELS,
    SCHEMA_REGISTRY_URL,
    SEGMENT_BYTES,
    TIMESTAMP_TYPES,
    ZSTD_LEVELS,
)

UNIQUE = NoDuplicates()
_CLIENT_AUTH = OneOf(("required", "requested", "none"))
_MIGRATION = OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ignore_case=True)
_PROTOCOLS = OneOf(("consumer", "classic", "share", "streams"))
_ASSIGNORS = {
    "uniform": "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "range": "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
}


class _Assignors(Validator):
    """Accepts Kafka's own assignors, by name or by class."""

    @property
    def expects(self) -> str:
        return f"{' or '.join(_ASSIGNORS)}, because Ottla cannot load Java classes"

    def check(self, name: str, value: Value) -> None:
        assert isinstance(value, list)
        for each in value:
            if each not in (*_ASSIGNORS, *_ASSIGNORS.values()):
                raise InvalidValue.of(name, each, f"Give {self.expects}")


def assignor_names(values: Iterable[str]) -> list[str]:
    """Return the short names of assignors that are given by name or by class."""
    short = {class_name: name for name, class_name in _ASSIGNORS.items()}
    return [short.get(each, each) for each in values]


_SECURITY = OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
_LISTENERS = "PLAINTEXT://:9092"
_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
_JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"
_PRINCIPALS = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
DOUBLE_MAX = "1.7976931348623157E308"

# Name, type, default, valid values, documentation; then optional flags: an update mode other than read-only, NO_EFFECT
# (known because clients request it and tools set it, but never read), INTERNAL (hidden, for tests).
# fmt: off
BROKER_CONFIGS: dict[str, ConfigDef] = config_table([
    # Identity
    ("broker.id",                   INT,     "-1",   None,     "The number of this broker in its cluster; -1 lets ZooKeeper give one."),
    ("node.id",                     INT,     None,   Range(0), "Another name for broker.id."),
    ("broker.rack",                 STRING,  None,   None,     "Where the broker stands, so that replicas are spread over racks."),
    ("broker.id.generation.enable", BOOLEAN, "true", None,     "Let ZooKeeper give a broker without broker.id a number."),
    ("reserved.broker.max.id",      INT,     "1000", Range(0), "The highest broker.id that may be given by hand; ZooKeeper's numbers start above it."),
    # ZooKeeper
    ("zookeeper.connect",                STRING, None, None, "The ensemble as host:port,host:port/chroot; without it the broker keeps its metadata in a file."),
    ("zookeeper.connection.timeout.ms",  INT,     None,    None,     "How long to wait for ZooKeeper at the start; without it, as long as a session lasts."),
    ("zookeeper.session.timeout.ms",     INT,     "18000", None,     "After this long without a sign of life ZooKeeper declares the broker dead."),
    ("zookeeper.max.in.flight.requests", INT,     "10",    Range(1), "Maximum number of requests in flight to ZooKeeper.", NO_EFFECT),
    ("zookeeper.set.acl",                BOOLEAN, "false", None,     "Let the nodes that this broker makes belong to the user that it logs in as."),
    ("zookeeper.clientCnxnSocket",       STRING,  None,    None,     "Java's socket, for TLS org.apache.zookeeper.ClientCnxnSocketNetty."),
    ("zookeeper.ssl.client.enable",      BOOLEAN, "false", None,     "Reach ZooKeeper over TLS, at its secureClientPort."),
    ("zookeeper.ssl.keystore.location",  STRING,  None,    None,     "The file with the key and the certificate that ZooKeeper is shown."),
    ("zookeeper.ssl.keystore.password",  PASSWORD, None,   None,     "The password of that file."),
    ("zookeeper.ssl.keystore.type",      STRING,  None,    None,     "JKS, PKCS12 or PEM; what counts is the content of the file."),
    ("zookeeper.ssl.truststore.location", STRING, None,    None,     "The file with the authorities that ZooKeeper's certificate may come from."),
    ("zookeeper.ssl.truststore.password", PASSWORD, None,  None,     "The password of that file."),
    ("zookeeper.ssl.truststore.type",    STRING,  None,    None,     "JKS, PKCS12 or PEM; what counts is the content of the file."),
    ("zookeeper.ssl.protocol",           STRING,  "TLSv1.2", None,   "The TLS version for ZooKeeper, unless zookeeper.ssl.enabled.protocols is set."),
    ("zookeeper.ssl.enabled.protocols",  LIST,    None,    None,     "The TLS versions for ZooKeeper."),
    ("zookeeper.ssl.cipher.suites",      LIST,    None,    None,     "The cipher suites for ZooKeeper; without it the library's choice."),
    ("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", None, "HTTPS checks that ZooKeeper's certificate is for its host; empty does not."),
    ("zookeeper.ssl.crl.enable",         BOOLEAN, "false", None,     "Look up whether ZooKeeper's certificate was revoked; refused, because nothing does it."),
    ("zookeeper.ssl.ocsp.enable",        BOOLEAN, "false", None,     "Ask whether ZooKeeper's certificate was revoked; refused, because nothing does it."),
    # Encryption of dynamic passwords in ZooKeeper
    ("password.encoder.secret",               PASSWORD, None, None, "Secret that encrypts passwords. Without it no password can be set while a broker runs."),
    ("password.encoder.old.secret",           PASSWORD, None, None, "Previous secret. At the start, passwords encrypted with it are encrypted again."),
    ("password.encoder.keyfactory.algorithm", STRING,   None, None, "How a key is made of the secret; PBKDF2WithHmacSHA512 unless it is given."),
    ("password.encoder.cipher.algorithm",     STRING,   "AES/CBC/PKCS5Padding", None, "The cipher: AES/CBC/PKCS5Padding or AES/GCM/NoPadding."),
    ("password.encoder.key.length",           INT,      "128",  Range(8),    "Key length in bits: 128, 192 or 256."),
    ("password.encoder.iterations",           INT,      "4096", Range(1024), "How often the secret is hashed to make the key."),
    # Listeners
    ("listeners",              LIST, _LISTENERS, UNIQUE, "Where to listen, as NAME://host:port; no host is every interface, port 0 any free port.", PER_BROKER),
    ("advertised.listeners",           LIST,   None,          UNIQUE, "Addresses for clients, if they differ from listeners."),
    ("listener.security.protocol.map", STRING, _PROTOCOL_MAP, None,   "Which security protocol each listener speaks, as NAME:PROTOCOL pairs.", PER_BROKER),
    ("inter.broker.listener.name",     STRING, None,          None,   "The listener that brokers use among themselves."),
    ("control.plane.listener.name",    STRING, None,          None,   "A listener for the controller's requests alone.", NO_EFFECT),
    # Connections
    ("connections.max.idle.ms",                   LONG,   "600000",    None,     "Connections that are silent this long are closed."),
    ("connection.failed.authentication.delay.ms", INT,    "100",       Range(0),
     "How long a connection that failed to authenticate is kept before it is closed."),
    ("max.connections",                           INT,    INT_MAX,     Range(0), "The most connections at a time.", CLUSTER_WIDE),
    ("max.connections.per.ip",                    INT,    INT_MAX,     Range(0), "The most connections of one address.", CLUSTER_WIDE),
    ("max.connections.per.ip.overrides",          STRING, "",          None,     "Other limits for some addresses, as host:number pairs.", CLUSTER_WIDE),
    ("max.connection.creation.rate",              INT,    INT_MAX,     Range(0), "New connections per second.", CLUSTER_WIDE),
    ("socket.listen.backlog.size",                INT,    "50",        Range(1), "Connections that may wait to be accepted.", NO_EFFECT),
    ("socket.receive.buffer.bytes",               INT,    "102400",    None,     "SO_RCVBUF of sockets; -1 leaves it to the system.", NO_EFFECT),
    ("socket.send.buffer.bytes",                  INT,    "102400",    None,     "SO_SNDBUF of sockets; -1 leaves it to the system.", NO_EFFECT),
    ("socket.request.max.bytes",                  INT,    "104857600", Range(1), "A larger request closes the connection it came on."),
    ("socket.connection.setup.timeout.ms",        LONG,   "10000",     None,     "How long connecting to a broker may take.", NO_EFFECT),
    ("socket.connection.setup.timeout.max.ms",  LONG, "30000", None, "The longest that the time for connecting to a broker may grow to by retries.", NO_EFFECT),
    ("request.timeout.ms",                        INT,    "30000",     None,     "How long this broker waits for another one's response."),
    ("queued.max.requests",                       INT,    "500",       Range(1), "Requests that may wait before reading stops.", NO_EFFECT),
    ("queued.max.request.bytes",                  LONG,   "-1",        None,     "Bytes that may wait before reading stops; -1: no limit.", NO_EFFECT),
    ("max.request.partition.size.limit",          INT,    "2000",      Range(1), "The most partitions that one DescribeTopicPartitions response shows."),
    # Threads
    ("num.network.threads", INT, "3",  Range(1), "Kafka's network threads; Ottla has one loop.", CLUSTER_WIDE, NO_EFFECT),
    ("num.io.threads",      INT, "8",  Range(1), "Kafka's request threads; Ottla has one loop.", CLUSTER_WIDE, NO_EFFECT),
    ("background.threads",  INT, "10", Range(1), "Threads for work in the background.", CLUSTER_WIDE, NO_EFFECT),
    # Topics
    ("auto.create.topics.enable",      BOOLEAN, "true", None,     "Create a topic when a client first asks for it."),
    ("delete.topic.enable",            BOOLEAN, "true", None,     "Let topics be deleted."),
    ("num.partitions",                 INT,     "1",    Range(1), "Partitions of a topic that is created without a number."),
    ("default.replication.factor",     INT,     "1",    None,     "Replicas of a topic that is created without a number."),
    ("create.topic.policy.class.name", CLASS,   None,   None,     "A Java class that judges new topics; not used.", NO_EFFECT),
    ("alter.config.policy.class.name", CLASS,   None,   None,     "A Java class that judges config changes; not used.", NO_EFFECT),
    # Fetching
    ("fetch.max.bytes",                                  INT, "57671680", Range(1024), "The most bytes of one fetch response."),
    ("max.incremental.fetch.session.cache.slots",        INT, "1000",     Range(0),    "Maximum number of fetch sessions."),
    ("fetch.purgatory.purge.interval.requests",          INT, "1000",     None,        "Kafka's purgatory; Ottla has none.", NO_EFFECT),
    ("producer.purgatory.purge.interval.requests",       INT, "1000",     None,        "Kafka's purgatory; Ottla has none.", NO_EFFECT),
    ("delete.records.purgatory.purge.interval.requests", INT, "1",        None,        "Kafka's purgatory; Ottla has none.", NO_EFFECT),
    # Shutdown
    ("controlled.shutdown.enable",           BOOLEAN, "true", None, "Hand over leadership before stopping."),
    ("controlled.shutdown.max.retries",      INT,     "3",    None, "How often handing over leadership is tried."),
    ("controlled.shutdown.retry.backoff.ms", LONG,    "5000", None, "The pause between two tries to hand over leadership."),
    ("ottla.shutdown.timeout.ms",            LONG,    "60000", Range(1000), "A broker that has not stopped after this time ends at once; the next start checks its logs.", UNLISTED),
    # Quotas
    ("quota.window.num",                                     INT,   "11", Range(1), "Windows over which client quotas are measured."),
    ("quota.window.size.seconds",                            INT,   "1",  Range(1), "The length of a window over which client quotas are measured."),
    ("controller.quota.window.num",                          INT,   "11", Range(1), "Windows whose mutations a client may make at once."),
    ("controller.quota.window.size.seconds",                 INT,   "1",  Range(1), "The length of a window over which quotas on mutations are measured."),
    ("replication.quota.window.num",                         INT,   "11", Range(1), "Windows over which replication quotas are measured.", NO_EFFECT),
    ("replication.quota.window.size.seconds",                INT,   "1",  Range(1), "The length of a window over which replication quotas are measured."),
    ("alter.log.dirs.replication.quota.window.num",          INT,   "11", Range(1), "Windows over which moves between directories are measured.", NO_EFFECT),
    ("alter.log.dirs.replication.quota.window.size.seconds", INT,   "1",  Range(1), "The length of a window over which such moves are measured.", NO_EFFECT),
    ("client.quota.callback.class",                          CLASS, None, None,     "A Java class that computes quotas; not used.", NO_EFFECT),
    # Metrics
    ("metric.reporters",         LIST,   _JMX_REPORTER, UNIQUE,   "Java classes that report metrics; not used.", CLUSTER_WIDE, NO_EFFECT),
    ("metrics.num.samples",      INT,    "2",           Range(1), "Samples that a metric is computed from.", NO_EFFECT),
    ("metrics.recording.level",  STRING, "INFO",        None,     "How detailed metrics are.", NO_EFFECT),
    ("metrics.sample.window.ms", LONG,   "30000",       Range(1), "The time one sample covers.", NO_EFFECT),
    ("telemetry.max.bytes",      INT,    "1048576",     Range(1), "The most metrics a client may push at once."),
    ("telemetry.otlp.endpoint",  STRING, None,          None,     "The OpenTelemetry collector that gets the metrics of clients (KIP-714), such as http://localhost:4318.", UNLISTED),
    ("metrics.host",               STRING,  "127.0.0.1", None,         "The address that metrics.port is on.", UNLISTED),
    ("metrics.port",               INT,     "-1",        Range(-1, 65535), "Where Prometheus gets the metrics of the broker, at /metrics; 0 takes a free port, -1: nowhere.", UNLISTED),
    ("metrics.authentication.method", STRING, "NONE", OneOf(("NONE", "KAFKA"), ignore_case=True), "KAFKA: metrics are for users of the cluster with DESCRIBE on it. NONE: for everybody who reaches the port.", UNLISTED),
    ("metrics.allowed.hosts",      LIST,    "",          None,         "Further names of the broker under which metrics are served without a login.", UNLISTED),
    ("metrics.partitions.enable",  BOOLEAN, "true",      None,         "Whether there are metrics of each partition.", UNLISTED),
    ("metrics.otlp.endpoint",      STRING,  None,        None,         "The OpenTelemetry collector that the metrics of the broker are pushed to, such as http://localhost:4318.", UNLISTED),
    ("metrics.otlp.interval.ms",   LONG,    "15000",     Range(100),   "How often they are pushed.", UNLISTED),
    ("metrics.otlp.headers",       PASSWORD, None,       None,         "Headers for the collector, such as Authorization=Bearer …; several are separated by commas.", UNLISTED),
    # Count audit
    ("ottla.audit.enable",           BOOLEAN, "false",   None,         "Count what this broker leads, in a process of its own, and write it to the topic __ottla_audit.", UNLISTED),
    ("ottla.audit.tier",             STRING,  "broker",  None,         "Tier name of this cluster's brokers in the count audit.", UNLISTED),
    ("ottla.audit.topics",           STRING,  ".*",      None,         "The topics that are counted, as a regular expression; never internal and compacted ones.", UNLISTED),
    ("ottla.audit.bucket.ms",        LONG,    "600000",  Range(1),     "The time that is counted together; the same in all tiers.", UNLISTED),
    ("ottla.audit.interval.ms",      LONG,    "60000",   Range(100),   "Interval between two counts.", UNLISTED),
    ("ottla.audit.checksums.enable", BOOLEAN, "true",    None,         "Read every record for its checksum. Without them counts come from the headers of batches.", UNLISTED),
    ("ottla.audit.client.config",    STRING,  None,      None,         "A file with client properties for the process that counts. Default: as brokers reach each other.", UNLISTED),
    # Directories
    ("log.dir",                           LIST, "/tmp/kafka-logs", UNIQUE,   "Where logs are kept unless log.dirs says it."),
    ("log.dirs",                          LIST, None,              UNIQUE,   "The directories that logs are spread over."),
    ("log.dir.failure.timeout.ms",        LONG, "30000",           Range(1), "How long to try to report a failed directory.", NO_EFFECT),
    ("num.recovery.threads.per.data.dir", INT,  "2",               Range(1),
     "Threads per directory that open logs at the start and flush them at the end.", CLUSTER_WIDE, NO_EFFECT),
    # Segments
    ("log.segment.bytes",           INT,     "1073741824", SEGMENT_BYTES, "The size at which a segment is closed.", CLUSTER_WIDE),
    ("log.roll.ms",                 LONG,    None,         None,          "The age at which a segment is closed.", CLUSTER_WIDE),
    ("log.roll.hours",              INT,     "168",        Range(1),      "The age in hours at which a segment is closed, where log.roll.ms is not set."),
    ("log.roll.jitter.ms",          LONG,    None,         None,          "The most that is taken off log.roll.ms at random.", CLUSTER_WIDE),
    ("log.roll.jitter.hours",       INT,     "0",        Range(0), "The most that is taken off log.roll.hours at random, where log.roll.jitter.ms is not set."),
    ("log.segment.delete.delay.ms", LONG,    "60000",      Range(0),      "How long the files of a dropped segment are kept.", CLUSTER_WIDE),
    ("log.index.interval.bytes",    INT,     "4096",       Range(0),      "Bytes of log between two entries of the offset index.", CLUSTER_WIDE),
    ("log.index.size.max.bytes",    INT,     "10485760",   Range(4),      "The largest an index may become.", CLUSTER_WIDE),
    ("log.preallocate",             BOOLEAN, "false",      None,          "Reserve a segment's size at once.", CLUSTER_WIDE),
    # Retention
    ("log.retention.bytes",             LONG, "-1",     None,             "The size a partition may reach; -1: any.", CLUSTER_WIDE),
    ("log.retention.ms",                LONG, None,     None,             "The age at which a segment goes; -1: none.", CLUSTER_WIDE),
    ("log.retention.minutes",           INT,  None,     None,             "The age in minutes at which a segment goes, where log.retention.ms is not set."),
    ("log.retention.hours",             INT,  "168",    None,      "The age in hours at which a segment goes, where neither milliseconds nor minutes are set."),
    ("log.retention.check.interval.ms", LONG, "300000", Range(1),         "How often old segments are looked for."),
    ("log.local.retention.bytes",       LONG, "-2",     Range(-2),        "Bytes kept locally beside tiered storage; -2 means all that is kept.", CLUSTER_WIDE),
    ("log.local.retention.ms",          LONG, "-2",     Range(-2),        "Time kept locally beside tiered storage; -2 means all that is kept.", CLUSTER_WIDE),
    ("log.remote.copy.lag.bytes",       LONG, "-1",     Range(-1),        "Bytes behind the newest record before a segment is copied to tiered storage.", CLUSTER_WIDE),
    ("log.remote.copy.lag.ms",          LONG, "0",      Range(-1),        "Age before a segment is copied to tiered storage.", CLUSTER_WIDE),
    # Tiered storage
    ("remote.log.storage.system.enable",        BOOLEAN, "false", None,     "Copy finished segments of topics with remote.storage.enable to remote storage."),
    ("remote.log.manager.task.interval.ms",     LONG, "30000",    Range(1), "How often segments to copy, and remote segments to delete, are looked for."),
    ("remote.log.manager.copier.thread.pool.size", INT, "10",     Range(1), "Segments that are copied to remote storage at a time."),
    ("remote.log.reader.threads",               INT,  "10",       Range(1), "Threads that read from remote storage."),
    ("remote.fetch.max.wait.ms",                INT,  "500",      Range(1), "How long a fetch waits for remote storage.", CLUSTER_WIDE),
    ("rlmm.config.remote.log.metadata.topic.num.partitions", INT, "50", Range(1), "Partitions of __remote_log_metadata when it is created.", UNLISTED),
    ("rlmm.config.remote.log.metadata.topic.replication.factor", SHORT, "3", Range(1), "Replicas of __remote_log_metadata when it is created.", UNLISTED),
    ("ottla.remote.storage.uri",                STRING, "",       None,     "Where remote segments are stored: file:///directory, s3://bucket/prefix, gs://… or az://….", UNLISTED),
    ("ottla.remote.storage.chunk.bytes",        INT,  "4194304",  Range(4096), "Bytes of a remote segment that are read at a time.", UNLISTED),
    ("ottla.remote.storage.cache.bytes",        LONG, "1073741824", Range(0), "The largest the cache of remote segments on disk may become; 0: none.", UNLISTED),
    ("log.cleanup.policy",              LIST, "delete", CLEANUP_POLICIES, "Treatment of old segments: delete, compact, both, or none.", CLUSTER_WIDE),
    # Flushing
    ("log.flush.interval.messages",                   LONG, LONG_MAX, Range(1), "Records between two fsyncs.", CLUSTER_WIDE),
    ("log.flush.interval.ms",                         LONG, None,     None,     "Milliseconds between two fsyncs.", CLUSTER_WIDE),
    ("log.flush.scheduler.interval.ms",               LONG, LONG_MAX, None,     "How often a log is asked whether it is time for an fsync."),
    ("log.flush.offset.checkpoint.interval.ms",       INT,  "60000",  Range(0), "How often recovery points are noted."),
    ("log.flush.start.offset.checkpoint.interval.ms", INT,  "60000",  Range(0), "How often log start offsets are noted.", NO_EFFECT),
    # Messages
    ("max.decompressed.message.bytes", INT, "2147483639", Range(1),  "The largest record of a compressed batch, decompressed.", CLUSTER_WIDE),
    ("message.max.bytes",          INT,    "1048588",  Range(0),    "The largest record batch that is accepted.", CLUSTER_WIDE),
    ("log.message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPES,
     "Whether records carry their producer's time or the time of the append.", CLUSTER_WIDE),
    ("log.message.timestamp.before.max.ms", LONG,   LONG_MAX,   Range(0),    "Maximum age of a record's timestamp.", CLUSTER_WIDE),
    ("log.message.timestamp.after.max.ms", LONG,   "3600000",  Range(0),    "Maximum time that a record's timestamp may be in the future.", CLUSTER_WIDE),
    ("compression.type",           STRING, "producer", COMPRESSION_TYPES, "The codec of stored batches; producer keeps the one they came with.", CLUSTER_WIDE),
    ("compression.gzip.level",     INT,    "-1",       GZIP_LEVELS, "How hard gzip tries.", CLUSTER_WIDE),
    ("compression.lz4.level",      INT,    "9",        LZ4_LEVELS,  "How hard lz4 tries.", CLUSTER_WIDE),
    ("compression.zstd.level",     INT,    "3",        ZSTD_LEVELS, "How hard zstd tries.", CLUSTER_WIDE),
    # Cleaner
    ("log.cleaner.enable",                  BOOLEAN, "true",      None,        "Compact the topics that ask for it."),
    ("log.cleaner.threads",                 INT,     "1",         Range(0),    "Threads that compact.", CLUSTER_WIDE),
    ("log.cleaner.backoff.ms",              LONG,    "15000",     Range(0),    "How long the cleaner rests when no log needs it.", CLUSTER_WIDE),
    ("log.cleaner.dedupe.buffer.size",      LONG,    "134217728", None,        "Memory for the keys of one compaction run.", CLUSTER_WIDE),
    ("log.cleaner.io.buffer.size",          INT,     "524288",    Range(0),    "Memory with which the cleaner reads and writes.", CLUSTER_WIDE),
    ("log.cleaner.io.buffer.load.factor",   DOUBLE,  "0.9",       None,        "How full the cleaner's map of keys may get.", CLUSTER_WIDE),
    ("log.cleaner.io.max.bytes.per.second", DOUBLE,  DOUBLE_MAX,  None,        "How fast compaction may read and write.", CLUSTER_WIDE),
    ("log.cleaner.delete.retention.ms",     LONG,    "86400000",  Range(0),    "How long tombstones stay in compacted topics.", CLUSTER_WIDE),
    ("log.cleaner.min.compaction.lag.ms",   LONG,    "0",         Range(0),    "The least time a record stays before compaction may drop it.", CLUSTER_WIDE),
    ("log.cleaner.max.compaction.lag.ms",   LONG,    LONG_MAX,    Range(1),    "The most time a record waits to be considered for compaction.", CLUSTER_WIDE),
    ("log.cleaner.min.cleanable.ratio",     DOUBLE,  "0.5",       Range(0, 1), "The uncompacted share of a log that makes it worth compacting.", CLUSTER_WIDE),
    # Replication
    ("min.insync.replicas",                     INT,     "1",       Range(1), "In-sync replicas without which a write with acks=all is refused.", CLUSTER_WIDE),
    ("unclean.leader.election.enable",          BOOLEAN, "false",    None,     "Let a replica that is not in sync lead when no other is left.", CLUSTER_WIDE),
    ("auto.leader.rebalance.enable",            BOOLEAN, "true",     None,     "Give leadership back to preferred replicas."),
    ("leader.imbalance.check.interval.seconds", LONG,    "300",      Range(1), "How often the controller looks whether leaders are balanced."),
    ("leader.imbalance.per.broker.percentage",  INT,     "10",       None,     "The share of leaders in the wrong place that is tolerated per broker."),
    ("num.replica.fetchers",                    INT,     "1",      Range(1), "Fetchers with which a follower copies from one leader.", CLUSTER_WIDE, NO_EFFECT),
    ("num.replica.alter.log.dirs.threads",      INT,     None,       None,     "Threads that move logs between directories.", NO_EFFECT),
    ("replica.fetch.backoff.ms",                INT,     "1000",     Range(0), "How long a follower rests after a fetch that failed."),
    ("replica.fetch.max.bytes",                 INT,     "1048576",  Range(0), "Bytes per partition of a follower's fetch."),
    ("replica.fetch.min.bytes",                 INT,     "1",        None,     "Bytes a follower's fetch waits for."),
    ("replica.fetch.response.max.bytes",        INT,     "10485760", Range(0), "Bytes of one whole response to a follower's fetch."),
    ("replica.fetch.wait.max.ms",               INT,     "500",      None,     "The longest that a follower's fetch waits."),
    ("replica.high.watermark.checkpoint.interval.ms", LONG,    "5000",     None,     "How often high watermarks are noted."),
    ("replica.lag.time.max.ms",                 LONG,    "30000",    None,     "A follower that lags this long leaves the ISR."),
    ("replica.selector.class",                  STRING,  None,       None,     "How consumers are sent to a replica near them."),
    ("replica.socket.receive.buffer.bytes",     INT,     "65536",    None,     "SO_RCVBUF of a follower's connection.", NO_EFFECT),
    ("replica.socket.timeout.ms",               INT,     "30000",    None,     "How long a follower waits for a response."),
    # All coordinators
    ("group.coordinator.rebalance.protocols", LIST, "classic,consumer,streams", _PROTOCOLS, "The protocols that groups may use.", NO_EFFECT),
    ("group.coordinator.threads",             INT,  "4",  Range(1),   "Kafka's coordinator threads; Ottla has one loop.", NO_EFFECT),
    ("group.coordinator.append.linger.ms",    INT,  "-1", Range(-1),  "How long a coordinator gathers writes; -1 leaves it to the coordinator.", NO_EFFECT),
    ("group.coordinator.cached.buffer.max.bytes", INT,  "1048588", Range(524288),
     "The largest write buffer that a coordinator keeps for reuse.", CLUSTER_WIDE, NO_EFFECT),
    # Classic groups
    ("group.initial.rebalance.delay.ms", INT, "3000",    None,     "How long a new group waits for more members."),
    ("group.max.size",                   INT, INT_MAX,   Range(1), "The most members of a group."),
    ("group.max.session.timeout.ms",     INT, "1800000", None,     "The longest session timeout of a member."),
    ("group.min.session.timeout.ms",     INT, "6000",    None,     "The shortest session timeout of a member."),
    # Consumer groups (KIP-848)
    ("group.consumer.assignors",                  LIST,   "uniform,range", _Assignors(), "The assignors that a consumer group may use, the first being the default."),
    ("group.consumer.assignment.interval.ms",     INT,    "1000",  Range(0),   "The least time between two assignments of a consumer group.", CLUSTER_WIDE),
    ("group.consumer.min.assignment.interval.ms", INT,    "0",     Range(0),   "The shortest assignment interval that a consumer group may set."),
    ("group.consumer.max.assignment.interval.ms", INT,    "15000", Range(0),   "The longest assignment interval that a consumer group may set."),
    ("group.consumer.heartbeat.interval.ms",      INT,    "5000",  Range(1),   "The time between the heartbeats of a member of a consumer group."),
    ("group.consumer.min.heartbeat.interval.ms",  INT,    "5000",  Range(1),   "The shortest heartbeat interval that a consumer group may set."),
    ("group.consumer.max.heartbeat.interval.ms",  INT,    "15000", Range(1),   "The longest heartbeat interval that a consumer group may set."),
    ("group.consumer.session.timeout.ms",         INT,    "45000", Range(1),   "The silence after which a member of a consumer group is taken for dead."),
    ("group.consumer.min.session.timeout.ms",     INT,    "45000", Range(1),   "The shortest session timeout that a consumer group may set."),
    ("group.consumer.max.session.timeout.ms",     INT,    "60000", Range(1),   "The longest session timeout that a consumer group may set."),
    ("group.consumer.max.size",                   INT,    INT_MAX, Range(1),   "The most members of a consumer group."),
    ("group.consumer.migration.policy",       STRING, "bidirectional", _MIGRATION, "Whether a group may change between the classic and the consumer protocol."),
    # Share groups (KIP-932)
    ("group.share.assignors",                   LIST, "simple", None,      "The assignors that a share group may use, the first being the default.", NO_EFFECT),
    ("group.share.assignment.interval.ms",      INT,  "1000",  Range(0),              "The least time between two assignments of a share group.", CLUSTER_WIDE),
    ("group.share.min.assignment.interval.ms",  INT,  "0",     Range(0),              "The shortest assignment interval that a share group may set."),
    ("group.share.max.assignment.interval.ms",  INT,  "15000", Range(0),              "The longest assignment interval that a share group may set."),
    ("group.share.delivery.count.limit",        INT,  "5",     Range(2, 10),          "How often a share group tries to deliver a record."),
    ("group.share.min.delivery.count.limit",    INT,  "2",     Range(2, 5),           "The least number of deliveries that a share group may set."),
    ("group.share.max.delivery.count.limit",    INT,  "10",    Range(5, 25),          "The largest number of deliveries that a share group may set."),
    ("group.share.heartbeat.interval.ms",       INT,  "5000",  Range(1),              "The time between the heartbeats of a member of a share group."),
    ("group.share.min.heartbeat.interval.ms",   INT,  "5000",  Range(1),              "The shortest heartbeat interval that a share group may set."),
    ("group.share.max.heartbeat.interval.ms",   INT,  "15000", Range(1),              "The longest heartbeat interval that a share group may set."),
    ("group.share.session.timeout.ms",          INT,  "45000", Range(1),              "The silence after which a member of a share group is taken for dead."),
    ("group.share.min.session.timeout.ms",      INT,  "45000", Range(1),              "The shortest session timeout that a share group may set."),
    ("group.share.max.session.timeout.ms",      INT,  "60000", Range(1),              "The longest session timeout that a share group may set."),
    ("group.share.max.size",                    INT,  "200",   Range(1, 1000),        "The most members of a share group."),
    ("group.share.max.share.sessions",          INT,  "2000",  Range(1),              "The most share sessions of a broker."),
    ("group.share.partition.max.record.locks",  INT,  "2000",  Range(100, 10000),     "Records of one partition that may be out for delivery."),
    ("group.share.min.partition.max.record.locks", INT,  "100",   Range(100, 2000), "The least number of records out for delivery that a share group may set."),
    ("group.share.max.partition.max.record.locks", INT,  "4000",  Range(2000, 10000),
     "The largest number of records out for delivery that a share group may set."),
    ("group.share.record.lock.duration.ms",     INT,  "30000", Range(1000, 3600000),  "How long a consumer may take over a record before others get it."),
    ("group.share.min.record.lock.duration.ms", INT,  "15000", Range(1000, 30000),    "The least lock duration that a share group may set."),
    ("group.share.max.record.lock.duration.ms", INT,  "60000", Range(30000, 3600000), "The largest lock duration that a share group may set."),
    ("errors.deadletterqueue.auto.create.topics.enable", BOOLEAN, "false", None, "Create the dead-letter topic of a share group with its first dead letter.", CLUSTER_WIDE),
    ("errors.deadletterqueue.topic.name.prefix", STRING, "dlq.", None, "The beginning of the names of all dead-letter topics of share groups; empty allows every name.", CLUSTER_WIDE),
    ("share.fetch.purgatory.purge.interval.requests", INT,  "1000",  None,                  "Kafka's purgatory; Ottla has none.", NO_EFFECT),
    # State topic of share groups
    ("share.coordinator.threads",          INT, "1",   Range(1), "Kafka's coordinator threads; Ottla has one loop.", NO_EFFECT),
    ("share.coordinator.append.linger.ms", INT, "-1",  Range(-1), "How long the share coordinator gathers writes; -1 leaves it to the coordinator.", NO_EFFECT),
    ("share.coordinator.cached.buffer.max.bytes", INT, "1048588", Range(524288),
     "The largest write buffer that the share coordinator keeps for reuse.", CLUSTER_WIDE, NO_EFFECT),
    ("share.coordinator.load.buffer.size", INT, "5242880", Range(1), "Bytes read at once when the state of share groups is loaded.", NO_EFFECT),
    ("share.coordinator.snapshot.update.records.per.snapshot", INT, "500", Range(0, 500), "Updates between two snapshots of a share partition."),
    ("share.coordinator.state.topic.compression.codec", INT, "0",   None, "The codec of the topic that keeps the state of share groups.", NO_EFFECT),
    ("share.coordinator.state.topic.min.isr", SHORT, "2",   Range(1), "min.insync.replicas of the topic that keeps the state of share groups."),
    ("share.coordinator.state.topic.num.partitions", INT, "50",  Range(1), "Partitions of the topic that keeps the state of share groups."),
    ("share.coordinator.state.topic.replication.factor", SHORT, "3",   Range(1), "Replicas of the topic that keeps the state of share groups."),
    ("share.coordinator.state.topic.segment.bytes", INT, "104857600", Range(1), "Segment size of the topic that keeps the state of share groups."),
    ("share.coordinator.write.timeout.ms", INT, "5000", Range(1), "How long replicas may take over a write of the share coordinator."),
    # Committed offsets
    ("offset.metadata.max.bytes",           INT,   "4096",      None,     "The longest note a client may leave with an offset."),
    ("offsets.commit.timeout.ms",           INT,   "5000",      Range(1), "How long replicas may take over a commit.", NO_EFFECT),
    ("offsets.load.buffer.size",            INT,   "5242880",   Range(1), "Bytes read at once when loading offsets.", NO_EFFECT),
    ("offsets.retention.check.interval.ms", LONG,  "600000",    Range(1), "How often old offsets are looked for."),
    ("offsets.retention.minutes",           INT,   "10080",     Range(1), "How long the offsets of an empty group are kept."),
    ("offsets.topic.compression.codec",     INT,   "0",         None,     "The codec of the offsets topic.", NO_EFFECT),
    ("offsets.topic.num.partitions",        INT,   "50",        Range(1), "Partitions of the offsets topic."),
    ("offsets.topic.replication.factor",    SHORT, "3",         Range(1), "Replicas of the offsets topic."),
    ("offsets.topic.segment.bytes",         INT,   "104857600", Range(1), "Segment size of the offsets topic."),
    # Schemas
    (SCHEMA_REGISTRY_URL,       LIST,     "",   None, "The schema registry that topics with confluent.value.schema.validation ask; several URLs are tried in turn.", UNLISTED),
    ("confluent.basic.auth.user.info",      PASSWORD, None, None, "The user and the password for that registry, separated by a colon.", UNLISTED),
    # Transactions and producer ids
    ("producer.id.expiration.ms",                 INT, "86400000", Range(1), "How long an idle producer's last sequence numbers are remembered.", CLUSTER_WIDE),
    ("producer.id.expiration.check.interval.ms",  INT, "600000",  Range(1), "How often idle producers are looked for.", INTERNAL),
    ("transactional.id.expiration.ms",            INT, "604800000", Range(1), "How long a transactional id without transactions is remembered."),
    ("transaction.two.phase.commit.enable",       BOOLEAN, "false", None,  "Let producers with the right TWO_PHASE_COMMIT keep transactions open without a timeout (KIP-939)."),
    ("transaction.max.timeout.ms",                INT, "900000",  Range(1), "The longest timeout of a transaction."),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000",   Range(1), "How often transactions that timed out are looked for."),
    ("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", Range(1), "How often transactional ids that expired are looked for."),
    ("transaction.partition.verification.enable", BOOLEAN, "true",    None,
     "Check that a partition is part of the transaction before it is written to.", CLUSTER_WIDE),
    ("add.partitions.to.txn.retry.backoff.ms",    INT, "20",      Range(1), "The pause before a transaction's partitions are verified again.", NO_EFFECT),
    ("add.partitions.to.txn.retry.backoff.max.ms", INT, "100",  Range(0), "The longest pause before a transaction's partitions are verified again.", NO_EFFECT),
    ("transaction.state.log.load.buffer.size",    INT, "5242880", Range(1), "Bytes read at once when the transaction log is loaded.", NO_EFFECT),
    ("transaction.state.log.min.isr",             INT, "2",       Range(1), "min.insync.replicas of the transaction log."),
    ("transaction.state.log.num.partitions",      INT, "50",      Range(1), "Partitions of the transaction log."),
    ("transaction.state.log.replication.factor",  SHORT, "3",       Range(1), "Replicas of the transaction log."),
    ("transaction.state.log.segment.bytes",       INT, "104857600", Range(1), "Segment size of the transaction log."),
    # Streams groups (KIP-1071)
    ("group.streams.assignment.interval.ms",     INT, "1000",  Range(0), "The least time between two assignments of a streams group.", CLUSTER_WIDE),
    ("group.streams.min.assignment.interval.ms", INT, "0",     Range(0), "The shortest assignment interval that a streams group may set."),
    ("group.streams.max.assignment.interval.ms", INT, "15000", Range(0), "The longest assignment interval that a streams group may set."),
    ("group.streams.heartbeat.interval.ms",      INT, "5000",  Range(1), "The time between the heartbeats of a member of a streams group."),
    ("group.streams.min.heartbeat.interval.ms",  INT, "5000",  Range(1), "The shortest heartbeat interval that a streams group may set."),
    ("group.streams.max.heartbeat.interval.ms",  INT, "15000", Range(1), "The longest heartbeat interval that a streams group may set."),
    ("group.streams.session.timeout.ms",         INT, "45000", Range(1), "The silence after which a member of a streams group is taken for dead."),
    ("group.streams.min.session.timeout.ms",     INT, "45000", Range(1), "The shortest session timeout that a streams group may set."),
    ("group.streams.max.session.timeout.ms",     INT, "60000", Range(1), "The longest session timeout that a streams group may set."),
    ("group.streams.num.standby.replicas",       INT, "0",     Range(0), "Standby replicas of each task of a streams group."),
    ("group.streams.max.standby.replicas",       INT, "2",     Range(0), "The most standby replicas that a streams group may set."),
    ("group.streams.initial.rebalance.delay.ms", INT, "3000",  Range(0), "How long a new streams group waits for more members."),
    ("group.streams.topology.description.plugin.class", CLASS, None, OneOf(("org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin",)),
     "Keeps descriptions of the topologies of streams groups, in memory; without it no application is asked for one."),
    ("group.streams.max.size",                   INT, INT_MAX, Range(1), "The most members of a streams group."),
    # Authorization and principals
    ("authorizer.class.name",          STRING,  "",          None,      "Authorizer class. Empty allows everything."),
    ("super.users",                    STRING,  None,        None,      "Principals that may do everything, separated by semicolons."),
    ("allow.everyone.if.no.acl.found", BOOLEAN, "false",     None,      "Let everybody do what no ACL speaks about."),
    ("security.inter.broker.protocol", STRING,  "PLAINTEXT", _SECURITY, "The security protocol among brokers."),
    ("principal.builder.class",        CLASS,   _PRINCIPALS, None,   "The Java class that makes a principal of a connection; not used.", PER_BROKER, NO_EFFECT),
    ("connections.max.reauth.ms",      LONG,    "0",         None,      "SASL clients authenticate again after this; 0: never."),
    ("security.providers",             STRING,  None,        None,      "Java security providers; not used.", NO_EFFECT),
    # Delegation tokens
    ("delegation.token.secret.key",               PASSWORD, None,        None,     "The secret that signs delegation tokens; without it there are none."),
    ("delegation.token.expiry.time.ms",           LONG,     "86400000",  Range(1), "How long a delegation token is valid unless it is renewed."),
    ("delegation.token.max.lifetime.ms",          LONG,     "604800000", Range(1), "How long a delegation token can be renewed at all."),
    ("delegation.token.expiry.check.interval.ms", LONG,     "3600000",   Range(1), "How often expired delegation tokens are removed."),
    # SASL
    ("sasl.enabled.mechanisms",                   LIST,     "GSSAPI",  None, "The SASL mechanisms clients may use.", PER_BROKER),
    ("sasl.mechanism.inter.broker.protocol",      STRING,   "GSSAPI",  None, "The SASL mechanism among brokers.", PER_BROKER),
    ("sasl.jaas.config",                          PASSWORD, None,      None, "The login module with user and password.", PER_BROKER),
    ("java.security.auth.login.config",           STRING,   None,      None, "JAAS file with a section KafkaServer; by default the file named in KAFKA_OPTS."),
    ("sasl.server.max.receive.size",              INT,      "524288",  None, "The largest message while authenticating."),
    ("sasl.server.callback.handler.class",        CLASS,    None,      None, "A Java callback handler; not used.", NO_EFFECT),
    ("sasl.login.callback.handler.class",         CLASS,    None,      None, "A Java callback handler; not used.", NO_EFFECT),
    ("sasl.login.class",                          CLASS,    None,      None, "A Java login class; not used.", NO_EFFECT),
    ("sasl.kerberos.service.name",                STRING,   None,      None, "The first part of the principal that brokers run as, such as kafka.", PER_BROKER),
    ("sasl.kerberos.principal.to.local.rules",    LIST,     "DEFAULT", None, "How the principal of a client becomes a user.", PER_BROKER),
    ("sasl.oauthbearer.jwks.endpoint.url",        STRING,   None,      None, "Where the keys that sign tokens are found."),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG,     "3600000", None, "How often keys are fetched."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",     LONG, "100",   None, "The first pause before keys are fetched again that could not be."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, "10000", None, "The longest pause before keys are fetched again that could not be."),
    ("sasl.oauthbearer.token.endpoint.url",       STRING,   None,      None, "Where a broker gets a token to log in to others with."),
    ("sasl.oauthbearer.client.credentials.client.id",     STRING,   None, None, "Client id of the broker at that endpoint."),
    ("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, None, "How a broker proves that to the endpoint."),
    ("sasl.oauthbearer.scope",                    STRING,   None,      None, "The scope that a broker asks for."),
    ("sasl.oauthbearer.expected.audience",        LIST,     "",        None, "The audiences a token may be meant for; required unless any audience is allowed."),
    ("sasl.oauthbearer.expected.issuer",          STRING,   None,      None, "The issuer a token must come from; required unless any issuer is allowed."),
    ("sasl.oauthbearer.allow.unverified.audience", BOOLEAN, "false",   None, "Without expected audiences, believe tokens that are meant for anybody."),
    ("sasl.oauthbearer.allow.unverified.issuer",   BOOLEAN, "false",   None, "Without an expected issuer, believe every issuer whose signature fits."),
    ("sasl.oauthbearer.clock.skew.seconds",       INT,      "30",      Range(0), "By how much clocks may differ."),
    ("sasl.oauthbearer.scope.claim.name",         STRING,   "scope",   None, "The claim that holds the scope."),
    ("sasl.oauthbearer.sub.claim.name",           STRING,   "sub",     None, "The claim that holds the name of the user."),
    ("org.apache.kafka.sasl.oauthbearer.allowed.urls",  LIST,    "",      None, "The URLs where keys may be fetched, as KAFKA_OPTS may list them too; empty: any https."),
    ("ottla.sasl.oauthbearer.unsecured.tokens",         BOOLEAN, "false", None, "Believe tokens that nobody has signed: anybody can be anybody. For trials only."),
    # TLS
    ("ssl.client.auth",                       STRING,   "none",    _CLIENT_AUTH, "Whether clients must show a certificate.", PER_BROKER),
    ("ssl.keystore.location",                 STRING,   None,      None,         "The file with key and certificate.", PER_BROKER),
    ("ssl.keystore.type",                     STRING,   "JKS",     None,         "The format of the file with the key; the file says it itself.", PER_BROKER),
    ("ssl.keystore.password",                 PASSWORD, None,      None,         "The password of the file with the key.", PER_BROKER),
    ("ssl.keystore.key",                      PASSWORD, None,      None,         "The private key itself, as PEM.", PER_BROKER),
    ("ssl.keystore.certificate.chain",        PASSWORD, None,      None,         "The certificates themselves, as PEM.", PER_BROKER),
    ("ssl.key.password",                      PASSWORD, None,      None,         "The private key's password.", PER_BROKER),
    ("ssl.truststore.location",               STRING,   None,      None,         "The file with the certificates that are trusted.", PER_BROKER),
    ("ssl.truststore.type",                   STRING,   "JKS",   None, "The format of the file with trusted certificates; the file says it itself.", PER_BROKER),
    ("ssl.truststore.password",               PASSWORD, None,      None,         "The password of the file with trusted certificates.", PER_BROKER),
    ("ssl.truststore.certificates",           PASSWORD, None,      None,         "The trusted certificates themselves, as PEM.", PER_BROKER),
    ("ssl.protocol",                          STRING,   "TLSv1.3", None,         "The TLS version to aim for; ssl.enabled.protocols decides.", PER_BROKER),
    ("ssl.enabled.protocols",                 LIST,     "TLSv1.2,TLSv1.3", None,         "The TLS versions that are accepted.", PER_BROKER),
    ("ssl.cipher.suites",                     LIST,     "",      None, "Cipher suites that may be used; empty is the library's choice.", PER_BROKER),
    ("ssl.endpoint.identification.algorithm", STRING,   "https",   None,         "How the host name of a certificate is checked.", PER_BROKER),
    ("ssl.principal.mapping.rules",           STRING,   "DEFAULT", None,         "How a certificate's name becomes a user."),
    ("ssl.allow.dn.changes",                  BOOLEAN,  "false",   None,         "A new certificate may carry another name."),
    ("ssl.allow.san.changes",                 BOOLEAN,  "false",   None,         "A new certificate may carry other alternatives."),
    ("ssl.engine.factory.class",              CLASS,    None,      None,         "A Java factory; not used.", PER_BROKER, NO_EFFECT),
    ("ssl.keymanager.algorithm",              STRING,   "SunX509", None,         "Java's key manager; not used.", PER_BROKER, NO_EFFECT),
    ("ssl.trustmanager.algorithm",            STRING,   "PKIX",    None,         "Java's trust manager; not used.", PER_BROKER, NO_EFFECT),
    ("ssl.provider",                          STRING,   None,      None,         "Java's security provider; not used.", PER_BROKER, NO_EFFECT),
    ("ssl.secure.random.implementation",      STRING,   None,      None,         "Java's random numbers; not used.", PER_BROKER, NO_EFFECT),
])
# fmt: on

# Kafka's names without a meaning here: KRaft, tiered storage, Java plugins and older versions.
# fmt: off
_UNUSED_PREFIXES = (
    "config.providers", "confluent.", "controller.", "internal.", "kafka.metrics.", "metadata.",
    "remote.", "sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.", "unstable.",
)
_UNUSED_NAMES = frozenset({
    "auto.include.jmx.reporter", "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "cordoned.log.dirs",
    "early.start.listeners", "eligible.leader.replicas.enable",
    "follower.fetch.last.tiered.offset.enable", "group.coordinator.background.threads", "group.share.max.groups",
    "initial.broker.registration.timeout.ms", "inter.broker.protocol.version",
    "log.message.downconversion.enable", "log.message.format.version", "log.message.timestamp.difference.max.ms",
    "offsets.commit.required.acks", "process.roles", "sasl.client.callback.handler.class",
    "sasl.mechanism.controller.protocol", "zookeeper.metadata.migration.enable",
})
# fmt: on

# Names that are not, or no longer, Kafka's, mapped to the intended names.
ALIASES = {"log.segment.ms": "log.roll.ms", "delegation.token.master.key": "delegation.token.secret.key"}

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.+)")


def broker_config_def(name: str) -> ConfigDef | None:
    """Return the definition of a name, including listener.name.<name>.[mechanism.]<config> for a single listener."""
    definition = BROKER_CONFIGS.get(name)
    if definition is None and (prefixed := _LISTENER_PREFIX.fullmatch(name)):
        base = prefixed[1]
        definition = BROKER_CONFIGS.get(base) or BROKER_CONFIGS.get(base.partition(".")[2])
    return definition


def has_effect(name: str) -> bool:
    return name not in BROKER_CONFIGS or BROKER_CONFIGS[name].has_effect


def is_unused(name: str) -> bool:
    """Return True if Kafka knows the name and Ottla does not need it."""
    return name in _UNUSED_NAMES or name.startswith(_UNUSED_PREFIXES)
