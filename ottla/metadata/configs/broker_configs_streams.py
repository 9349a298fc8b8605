"""Broker configurations of streams groups (KIP-1071), which are not there yet: groups may keep settings for them."""

from __future__ import annotations

from ottla.metadata.configs.config_defs import CLUSTER_WIDE, INT, INT_MAX, ConfigDef, Range

STREAMS_CONFIGS = [
    ConfigDef(
        "group.streams.assignment.interval.ms",
        INT,
        "1000",
        "The least time between two assignments of a streams group.",
        Range(0),
        CLUSTER_WIDE,
    ),
    ConfigDef(
        "group.streams.min.assignment.interval.ms",
        INT,
        "0",
        "The shortest assignment interval that a streams group may set.",
        Range(0),
    ),
    ConfigDef(
        "group.streams.max.assignment.interval.ms",
        INT,
        "15000",
        "The longest assignment interval that a streams group may set.",
        Range(0),
    ),
    ConfigDef(
        "group.streams.heartbeat.interval.ms",
        INT,
        "5000",
        "The time between the heartbeats of a member of a streams group.",
        Range(1),
    ),
    ConfigDef(
        "group.streams.min.heartbeat.interval.ms",
        INT,
        "5000",
        "The shortest heartbeat interval that a streams group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.streams.max.heartbeat.interval.ms",
        INT,
        "15000",
        "The longest heartbeat interval that a streams group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.streams.session.timeout.ms",
        INT,
        "45000",
        "The silence after which a member of a streams group is taken for dead.",
        Range(1),
    ),
    ConfigDef(
        "group.streams.min.session.timeout.ms",
        INT,
        "45000",
        "The shortest session timeout that a streams group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.streams.max.session.timeout.ms",
        INT,
        "60000",
        "The longest session timeout that a streams group may set.",
        Range(1),
    ),
    ConfigDef(
        "group.streams.num.standby.replicas",
        INT,
        "0",
        "Standby replicas of each task of a streams group.",
        Range(0),
    ),
    ConfigDef(
        "group.streams.max.standby.replicas",
        INT,
        "2",
        "The most standby replicas that a streams group may set.",
        Range(0),
    ),
    ConfigDef(
        "group.streams.initial.rebalance.delay.ms",
        INT,
        "3000",
        "How long a new streams group waits for more members.",
        Range(0),
    ),
    ConfigDef("group.streams.max.size", INT, INT_MAX, "The most members of a streams group.", Range(1)),
]
