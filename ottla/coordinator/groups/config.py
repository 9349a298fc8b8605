"""The settings of the group coordinator, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Pace(NamedTuple):
    """What a group of the new protocols may set for itself; times are milliseconds."""

    heartbeat_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    assignment_interval_ms: int = 1_000


class StreamsSettings(NamedTuple):
    """What a streams group may set for itself beyond its pace."""

    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3_000


def _usual_streams_settings(group_id: str) -> StreamsSettings:
    return StreamsSettings()


def _usual_pace(group_type: str, group_id: str) -> Pace:
    return Pace()


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Field by field the broker settings `group.*` and `offsets.*`; times are milliseconds."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    # Not a Kafka setting but a Kafka constant: how long a parked JoinGroup of a new member is kept.
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    # Consumer groups of KIP-848
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_max_size: int = 2**31 - 1
    consumer_upgrade: bool = True
    consumer_downgrade: bool = True
    # Share groups of KIP-932
    share_max_size: int = 200
    # Streams groups of KIP-1071
    streams_max_size: int = 2**31 - 1
    streams_settings_of: Callable[[str], StreamsSettings] = _usual_streams_settings
    # Of a group, by its type ("consumer", "share" or "streams") and its id. It is asked each time: settings change.
    pace_of: Callable[[str, str], Pace] = _usual_pace
