"""Broker configurations of Kafka that have no effect here: whoever sets one is told so."""

from __future__ import annotations

# Kafka's own, without a meaning here: KRaft's, tiered storage's, those of Java plugins and of older versions.
_UNUSED_PREFIXES = (
    "config.providers",
    "confluent.",
    "controller.",
    "internal.",
    "kafka.metrics.",
    "metadata.",
    "password.encoder.",
    "remote.",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "unstable.",
    "zookeeper.ssl.",
)
_UNUSED_NAMES = frozenset(
    {
        "auto.include.jmx.reporter",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "cordoned.log.dirs",
        "delegation.token.master.key",
        "early.start.listeners",
        "eligible.leader.replicas.enable",
        "follower.fetch.last.tiered.offset.enable",
        "group.coordinator.background.threads",
        "group.share.max.groups",
        "initial.broker.registration.timeout.ms",
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "process.roles",
        "sasl.client.callback.handler.class",
        "sasl.mechanism.controller.protocol",
        "zookeeper.clientCnxnSocket",
        "zookeeper.metadata.migration.enable",
    }
)

# Known with type and default, because clients ask for them and tools set them, but nothing reads them.
_WITHOUT_EFFECT_PREFIXES = ("delegation.token.", "group.streams.", "sasl.", "ssl.")
_WITHOUT_EFFECT = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "allow.everyone.if.no.acl.found",
        "alter.config.policy.class.name",
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "background.threads",
        "client.quota.callback.class",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "create.topic.policy.class.name",
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "group.coordinator.append.linger.ms",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.rebalance.protocols",
        "group.coordinator.threads",
        "group.share.assignors",
        "log.dir.failure.timeout.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
        "offsets.commit.timeout.ms",
        "offsets.load.buffer.size",
        "offsets.topic.compression.codec",
        "principal.builder.class",
        "producer.purgatory.purge.interval.requests",
        "queued.max.request.bytes",
        "queued.max.requests",
        "replica.socket.receive.buffer.bytes",
        "replication.quota.window.num",
        "security.providers",
        "share.coordinator.append.linger.ms",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.load.buffer.size",
        "share.coordinator.state.topic.compression.codec",
        "share.coordinator.threads",
        "share.fetch.purgatory.purge.interval.requests",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "super.users",
        "telemetry.max.bytes",
        "transaction.state.log.load.buffer.size",
        "transaction.two.phase.commit.enable",
        "zookeeper.max.in.flight.requests",
        "zookeeper.set.acl",
    }
)


def is_unused(name: str) -> bool:
    """Whether Kafka knows the name and Ottla does not need it."""
    return name in _UNUSED_NAMES or name.startswith(_UNUSED_PREFIXES)


def has_effect(name: str) -> bool:
    """Whether a configuration that Ottla knows makes a difference."""
    return name not in _WITHOUT_EFFECT and not name.startswith(_WITHOUT_EFFECT_PREFIXES)
