"""Broker configurations of the process: identity, ZooKeeper, listeners, sockets, topics, quotas, metrics."""

from __future__ import annotations

from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    PER_BROKER,
    STRING,
    ConfigDef,
    NoDuplicates,
    Range,
)

_DEFAULT_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"

SERVER_CONFIGS = [
    # Identity
    ConfigDef(
        "broker.id", INT, "-1", "The number of this broker in its cluster; -1 lets ZooKeeper give one."
    ),
    ConfigDef("node.id", INT, None, "Another name for broker.id.", Range(0)),
    ConfigDef(
        "broker.rack", STRING, None, "Where the broker stands, so that replicas are spread over racks."
    ),
    ConfigDef(
        "broker.id.generation.enable",
        BOOLEAN,
        "true",
        "Let ZooKeeper give a broker without broker.id a number.",
    ),
    ConfigDef(
        "reserved.broker.max.id",
        INT,
        "1000",
        "The highest broker.id that may be given by hand; ZooKeeper's numbers start above it.",
        Range(0),
    ),
    # ZooKeeper
    ConfigDef(
        "zookeeper.connect",
        STRING,
        None,
        "The ensemble as host:port,host:port/chroot; without it the broker keeps its metadata in a file.",
    ),
    ConfigDef(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "How long to wait for ZooKeeper at the start; without it, as long as a session lasts.",
    ),
    ConfigDef(
        "zookeeper.session.timeout.ms",
        INT,
        "18000",
        "After this long without a sign of life ZooKeeper declares the broker dead.",
    ),
    ConfigDef(
        "zookeeper.max.in.flight.requests",
        INT,
        "10",
        "How many requests may be under way to ZooKeeper at once.",
        Range(1),
    ),
    ConfigDef("zookeeper.set.acl", BOOLEAN, "false", "Protect the nodes this broker writes with ACLs."),
    # Listeners
    ConfigDef(
        "listeners",
        LIST,
        "PLAINTEXT://:9092",
        "Where to listen, as NAME://host:port; no host is every interface, port 0 any free port.",
        NoDuplicates(),
        PER_BROKER,
    ),
    ConfigDef(
        "advertised.listeners",
        LIST,
        None,
        "What clients are told to connect to, where that differs from listeners.",
        NoDuplicates(),
    ),
    ConfigDef(
        "listener.security.protocol.map",
        STRING,
        _DEFAULT_PROTOCOL_MAP,
        "Which security protocol each listener speaks, as NAME:PROTOCOL pairs.",
        None,
        PER_BROKER,
    ),
    ConfigDef("inter.broker.listener.name", STRING, None, "The listener that brokers use among themselves."),
    ConfigDef("control.plane.listener.name", STRING, None, "A listener for the controller's requests alone."),
    # Connections
    ConfigDef("connections.max.idle.ms", LONG, "600000", "Connections that are silent this long are closed."),
    ConfigDef(
        "connection.failed.authentication.delay.ms",
        INT,
        "100",
        "How long a connection that failed to authenticate is kept before it is closed.",
        Range(0),
    ),
    ConfigDef("max.connections", INT, INT_MAX, "The most connections at a time.", Range(0), CLUSTER_WIDE),
    ConfigDef(
        "max.connections.per.ip", INT, INT_MAX, "The most connections of one address.", Range(0), CLUSTER_WIDE
    ),
    ConfigDef(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for some addresses, as host:number pairs.",
        None,
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "max.connection.creation.rate", INT, INT_MAX, "New connections per second.", Range(0), CLUSTER_WIDE
    ),
    ConfigDef("socket.listen.backlog.size", INT, "50", "Connections that may wait to be accepted.", Range(1)),
    ConfigDef(
        "socket.receive.buffer.bytes", INT, "102400", "SO_RCVBUF of sockets; -1 leaves it to the system."
    ),
    ConfigDef("socket.send.buffer.bytes", INT, "102400", "SO_SNDBUF of sockets; -1 leaves it to the system."),
    ConfigDef(
        "socket.request.max.bytes",
        INT,
        "104857600",
        "A larger request closes the connection it came on.",
        Range(1),
    ),
    ConfigDef(
        "socket.connection.setup.timeout.ms", LONG, "10000", "How long connecting to a broker may take."
    ),
    ConfigDef(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        "30000",
        "The longest that the time for connecting to a broker may grow to by retries.",
    ),
    ConfigDef("request.timeout.ms", INT, "30000", "How long this broker waits for another one's response."),
    ConfigDef("queued.max.requests", INT, "500", "Requests that may wait before reading stops.", Range(1)),
    ConfigDef(
        "queued.max.request.bytes", LONG, "-1", "Bytes that may wait before reading stops; -1: no limit."
    ),
    ConfigDef(
        "max.request.partition.size.limit",
        INT,
        "2000",
        "The most partitions that one DescribeTopicPartitions response shows.",
        Range(1),
    ),
    # Threads
    ConfigDef(
        "num.network.threads",
        INT,
        "3",
        "Kafka's network threads; Ottla has one loop.",
        Range(1),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "num.io.threads", INT, "8", "Kafka's request threads; Ottla has one loop.", Range(1), CLUSTER_WIDE
    ),
    ConfigDef("background.threads", INT, "10", "Threads for work in the background.", Range(1), CLUSTER_WIDE),
    # Topics
    ConfigDef(
        "auto.create.topics.enable", BOOLEAN, "true", "Create a topic when a client first asks for it."
    ),
    ConfigDef("delete.topic.enable", BOOLEAN, "true", "Let topics be deleted."),
    ConfigDef(
        "num.partitions", INT, "1", "Partitions of a topic that is created without a number.", Range(1)
    ),
    ConfigDef(
        "default.replication.factor", INT, "1", "Replicas of a topic that is created without a number."
    ),
    ConfigDef(
        "create.topic.policy.class.name", CLASS, None, "A Java class that judges new topics; not used."
    ),
    ConfigDef(
        "alter.config.policy.class.name", CLASS, None, "A Java class that judges config changes; not used."
    ),
    # Fetching
    ConfigDef("fetch.max.bytes", INT, "57671680", "The most bytes of one fetch response.", Range(1024)),
    ConfigDef(
        "max.incremental.fetch.session.cache.slots",
        INT,
        "1000",
        "How many fetch sessions are kept.",
        Range(0),
    ),
    ConfigDef("fetch.purgatory.purge.interval.requests", INT, "1000", "Kafka's purgatory; Ottla has none."),
    ConfigDef(
        "producer.purgatory.purge.interval.requests", INT, "1000", "Kafka's purgatory; Ottla has none."
    ),
    ConfigDef(
        "delete.records.purgatory.purge.interval.requests", INT, "1", "Kafka's purgatory; Ottla has none."
    ),
    # Shutdown
    ConfigDef("controlled.shutdown.enable", BOOLEAN, "true", "Hand over leadership before stopping."),
    ConfigDef("controlled.shutdown.max.retries", INT, "3", "How often handing over leadership is tried."),
    ConfigDef(
        "controlled.shutdown.retry.backoff.ms",
        LONG,
        "5000",
        "The pause between two tries to hand over leadership.",
    ),
    # Quotas
    ConfigDef("quota.window.num", INT, "11", "Windows over which client quotas are measured.", Range(1)),
    ConfigDef(
        "quota.window.size.seconds",
        INT,
        "1",
        "The length of a window over which client quotas are measured.",
        Range(1),
    ),
    ConfigDef(
        "controller.quota.window.num",
        INT,
        "11",
        "Windows whose mutations a client may make at once.",
        Range(1),
    ),
    ConfigDef(
        "controller.quota.window.size.seconds",
        INT,
        "1",
        "The length of a window over which quotas on mutations are measured.",
        Range(1),
    ),
    ConfigDef(
        "replication.quota.window.num",
        INT,
        "11",
        "Windows over which replication quotas are measured.",
        Range(1),
    ),
    ConfigDef(
        "replication.quota.window.size.seconds",
        INT,
        "1",
        "The length of a window over which replication quotas are measured.",
        Range(1),
    ),
    ConfigDef(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        "11",
        "Windows over which moves between directories are measured.",
        Range(1),
    ),
    ConfigDef(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        "1",
        "The length of a window over which such moves are measured.",
        Range(1),
    ),
    ConfigDef("client.quota.callback.class", CLASS, None, "A Java class that computes quotas; not used."),
    # Metrics
    ConfigDef(
        "metric.reporters",
        LIST,
        "org.apache.kafka.common.metrics.JmxReporter",
        "Java classes that report metrics; not used.",
        NoDuplicates(),
        CLUSTER_WIDE,
    ),
    ConfigDef("metrics.num.samples", INT, "2", "Samples that a metric is computed from.", Range(1)),
    ConfigDef("metrics.recording.level", STRING, "INFO", "How detailed metrics are."),
    ConfigDef("metrics.sample.window.ms", LONG, "30000", "The time one sample covers.", Range(1)),
    ConfigDef("telemetry.max.bytes", INT, "1048576", "The most metrics a client may push at once.", Range(1)),
]
