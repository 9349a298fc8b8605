"""Broker configurations of consumer groups, share groups, offsets and transactions."""

from __future__ import annotations

from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    ConfigDef,
    OneOf,
    Range,
)

_MIGRATION = OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ignore_case=True)

GROUP_CONFIGS = [
    # Every coordinator
    ConfigDef(
        "group.coordinator.rebalance.protocols",
        LIST,
        "classic,consumer,streams",
        "The protocols that groups may use.",
        OneOf(("consumer", "classic", "share", "streams")),
    ),
    ConfigDef(
        "group.coordinator.threads", INT, "4", "Kafka's coordinator threads; Ottla has one loop.", Range(1)
    ),
    ConfigDef(
        "group.coordinator.append.linger.ms",
        INT,
        "-1",
        "How long a coordinator gathers writes; -1 leaves it to the coordinator.",
        Range(-1),
    ),
    ConfigDef(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        "1048588",
        "The largest write buffer that a coordinator keeps for reuse.",
        Range(524288),
        CLUSTER_WIDE,
    ),
    # Classic groups
    ConfigDef(
        "group.initial.rebalance.delay.ms", INT, "3000", "How long a new group waits for more members."
    ),
    ConfigDef("group.max.size", INT, INT_MAX, "The most members of a group.", Range(1)),
    ConfigDef("group.max.session.timeout.ms", INT, "1800000", "The longest session timeout of a member."),
    ConfigDef("group.min.session.timeout.ms", INT, "6000", "The shortest session timeout of a member."),
    # Consumer groups of KIP-848
    ConfigDef(
        "group.consumer.assignors",
        LIST,
        "uniform,range",
        "The assignors that a consumer group may use, the first being the default.",
    ),
    ConfigDef(
        "group.consumer.assignment.interval.ms",
        INT,
        "1000",
        "The least time between two assignments of a consumer group.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "group.consumer.min.assignment.interval.ms",
        INT,
        "0",
        "The shortest assignment interval that a consumer group may set.",
        Range(0),
    ),
    ConfigDef(
        "group.consumer.max.assignment.interval.ms",
        INT,
        "15000",
        "The longest assignment interval that a consumer group may set.",
        Range(0),
    ),
    ConfigDef(
        "group.consumer.heartbeat.interval.ms",
        INT,
        "5000",
        "The time between the heartbeats of a member of a consumer group.",
        Range(1),
    ),
    ConfigDef(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        "5000",
        "The shortest heartbeat interval that a consumer group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        "15000",
        "The longest heartbeat interval that a consumer group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.consumer.session.timeout.ms",
        INT,
        "45000",
        "The silence after which a member of a consumer group is taken for dead.",
        Range(1),
    ),
    ConfigDef(
        "group.consumer.min.session.timeout.ms",
        INT,
        "45000",
        "The shortest session timeout that a consumer group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.consumer.max.session.timeout.ms",
        INT,
        "60000",
        "The longest session timeout that a consumer group may set.",
        Range(1),
    ),
    ConfigDef("group.consumer.max.size", INT, INT_MAX, "The most members of a consumer group.", Range(1)),
    ConfigDef(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether a group may change between the classic and the consumer protocol.",
        _MIGRATION,
    ),
    # Share groups of KIP-932
    ConfigDef(
        "group.share.assignors",
        LIST,
        "simple",
        "The assignors that a share group may use, the first being the default.",
    ),
    ConfigDef(
        "group.share.assignment.interval.ms",
        INT,
        "1000",
        "The least time between two assignments of a share group.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "group.share.min.assignment.interval.ms",
        INT,
        "0",
        "The shortest assignment interval that a share group may set.",
        Range(0),
    ),
    ConfigDef(
        "group.share.max.assignment.interval.ms",
        INT,
        "15000",
        "The longest assignment interval that a share group may set.",
        Range(0),
    ),
    ConfigDef(
        "group.share.delivery.count.limit",
        INT,
        "5",
        "How often a share group tries to deliver a record.",
        Range(2, 10),
    ),
    ConfigDef(
        "group.share.min.delivery.count.limit",
        INT,
        "2",
        "The least number of deliveries that a share group may set.",
        Range(2, 5),
    ),
    ConfigDef(
        "group.share.max.delivery.count.limit",
        INT,
        "10",
        "The largest number of deliveries that a share group may set.",
        Range(5, 25),
    ),
    ConfigDef(
        "group.share.heartbeat.interval.ms",
        INT,
        "5000",
        "The time between the heartbeats of a member of a share group.",
        Range(1),
    ),
    ConfigDef(
        "group.share.min.heartbeat.interval.ms",
        INT,
        "5000",
        "The shortest heartbeat interval that a share group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.share.max.heartbeat.interval.ms",
        INT,
        "15000",
        "The longest heartbeat interval that a share group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.share.session.timeout.ms",
        INT,
        "45000",
        "The silence after which a member of a share group is taken for dead.",
        Range(1),
    ),
    ConfigDef(
        "group.share.min.session.timeout.ms",
        INT,
        "45000",
        "The shortest session timeout that a share group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.share.max.session.timeout.ms",
        INT,
        "60000",
        "The longest session timeout that a share group may set.",
        Range(1),
    ),
    ConfigDef("group.share.max.size", INT, "200", "The most members of a share group.", Range(1, 1000)),
    ConfigDef(
        "group.share.max.share.sessions", INT, "2000", "The most share sessions of a broker.", Range(1)
    ),
    ConfigDef(
        "group.share.partition.max.record.locks",
        INT,
        "2000",
        "Records of one partition that may be out for delivery.",
        Range(100, 10000),
    ),
    ConfigDef(
        "group.share.min.partition.max.record.locks",
        INT,
        "100",
        "The least number of records out for delivery that a share group may set.",
        Range(100, 2000),
    ),
    ConfigDef(
        "group.share.max.partition.max.record.locks",
        INT,
        "4000",
        "The largest number of records out for delivery that a share group may set.",
        Range(2000, 10000),
    ),
    ConfigDef(
        "group.share.record.lock.duration.ms",
        INT,
        "30000",
        "How long a consumer may take over a record before others get it.",
        Range(1000, 3600000),
    ),
    ConfigDef(
        "group.share.min.record.lock.duration.ms",
        INT,
        "15000",
        "The least lock duration that a share group may set.",
        Range(1000, 30000),
    ),
    ConfigDef(
        "group.share.max.record.lock.duration.ms",
        INT,
        "60000",
        "The largest lock duration that a share group may set.",
        Range(30000, 3600000),
    ),
    ConfigDef(
        "share.fetch.purgatory.purge.interval.requests", INT, "1000", "Kafka's purgatory; Ottla has none."
    ),
    # The state topic of share groups
    ConfigDef(
        "share.coordinator.threads", INT, "1", "Kafka's coordinator threads; Ottla has one loop.", Range(1)
    ),
    ConfigDef(
        "share.coordinator.append.linger.ms",
        INT,
        "-1",
        "How long the share coordinator gathers writes; -1 leaves it to the coordinator.",
        Range(-1),
    ),
    ConfigDef(
        "share.coordinator.cached.buffer.max.bytes",
        INT,
        "1048588",
        "The largest write buffer that the share coordinator keeps for reuse.",
        Range(524288),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "share.coordinator.load.buffer.size",
        INT,
        "5242880",
        "Bytes read at once when the state of share groups is loaded.",
        Range(1),
    ),
    ConfigDef(
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        "500",
        "Updates between two snapshots of a share partition.",
        Range(0, 500),
    ),
    ConfigDef(
        "share.coordinator.state.topic.compression.codec",
        INT,
        "0",
        "The codec of the topic that keeps the state of share groups.",
    ),
    ConfigDef(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        "2",
        "min.insync.replicas of the topic that keeps the state of share groups.",
        Range(1),
    ),
    ConfigDef(
        "share.coordinator.state.topic.num.partitions",
        INT,
        "50",
        "Partitions of the topic that keeps the state of share groups.",
        Range(1),
    ),
    ConfigDef(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        "3",
        "Replicas of the topic that keeps the state of share groups.",
        Range(1),
    ),
    ConfigDef(
        "share.coordinator.state.topic.segment.bytes",
        INT,
        "104857600",
        "Segment size of the topic that keeps the state of share groups.",
        Range(1),
    ),
    ConfigDef(
        "share.coordinator.write.timeout.ms",
        INT,
        "5000",
        "How long replicas may take over a write of the share coordinator.",
        Range(1),
    ),
    # Committed offsets
    ConfigDef(
        "offset.metadata.max.bytes", INT, "4096", "The longest note a client may leave with an offset."
    ),
    ConfigDef(
        "offsets.commit.timeout.ms", INT, "5000", "How long replicas may take over a commit.", Range(1)
    ),
    ConfigDef(
        "offsets.load.buffer.size", INT, "5242880", "Bytes read at once when loading offsets.", Range(1)
    ),
    ConfigDef(
        "offsets.retention.check.interval.ms",
        LONG,
        "600000",
        "How often old offsets are looked for.",
        Range(1),
    ),
    ConfigDef(
        "offsets.retention.minutes",
        INT,
        "10080",
        "How long the offsets of an empty group are kept.",
        Range(1),
    ),
    ConfigDef("offsets.topic.compression.codec", INT, "0", "The codec of the offsets topic."),
    ConfigDef("offsets.topic.num.partitions", INT, "50", "Partitions of the offsets topic.", Range(1)),
    ConfigDef("offsets.topic.replication.factor", SHORT, "3", "Replicas of the offsets topic.", Range(1)),
    ConfigDef(
        "offsets.topic.segment.bytes", INT, "104857600", "Segment size of the offsets topic.", Range(1)
    ),
    # Transactions and producer ids
    ConfigDef(
        "producer.id.expiration.ms",
        INT,
        "86400000",
        "How long an idle producer's last sequence numbers are remembered.",
        Range(1),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "producer.id.expiration.check.interval.ms",
        INT,
        "600000",
        "How often idle producers are looked for.",
        Range(1),
        internal=True,
    ),
    ConfigDef(
        "transactional.id.expiration.ms",
        INT,
        "604800000",
        "How long a transactional id without transactions is remembered.",
        Range(1),
    ),
    ConfigDef("transaction.max.timeout.ms", INT, "900000", "The longest timeout of a transaction.", Range(1)),
    ConfigDef(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        "10000",
        "How often transactions that timed out are looked for.",
        Range(1),
    ),
    ConfigDef(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        "3600000",
        "How often transactional ids that expired are looked for.",
        Range(1),
    ),
    ConfigDef(
        "transaction.partition.verification.enable",
        BOOLEAN,
        "true",
        "Check that a partition is part of the transaction before it is written to.",
        None,
        CLUSTER_WIDE,
    ),
    ConfigDef("transaction.two.phase.commit.enable", BOOLEAN, "false", "Let clients prepare transactions."),
    ConfigDef(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        "20",
        "The pause before a transaction's partitions are verified again.",
        Range(1),
    ),
    ConfigDef(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        "100",
        "The longest pause before a transaction's partitions are verified again.",
        Range(0),
    ),
    ConfigDef(
        "transaction.state.log.load.buffer.size",
        INT,
        "5242880",
        "Bytes read at once when the transaction log is loaded.",
        Range(1),
    ),
    ConfigDef(
        "transaction.state.log.min.isr", INT, "2", "min.insync.replicas of the transaction log.", Range(1)
    ),
    ConfigDef(
        "transaction.state.log.num.partitions", INT, "50", "Partitions of the transaction log.", Range(1)
    ),
    ConfigDef(
        "transaction.state.log.replication.factor", SHORT, "3", "Replicas of the transaction log.", Range(1)
    ),
    ConfigDef(
        "transaction.state.log.segment.bytes",
        INT,
        "104857600",
        "Segment size of the transaction log.",
        Range(1),
    ),
]
