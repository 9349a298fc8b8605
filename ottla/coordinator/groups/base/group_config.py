"""Settings of the group coordinator, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Pace(NamedTuple):
    """Timing that each group of the new protocols can override, in milliseconds."""

    heartbeat_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    assignment_interval_ms: int = 1_000


class StreamsSettings(NamedTuple):
    """Further settings that each streams group can override."""

    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3_000


def _usual_streams_settings(group_id: str) -> StreamsSettings:
    return StreamsSettings()


def _usual_pace(group_type: str, group_id: str) -> Pace:
    return Pace()


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Broker settings `group.*` and `offsets.*`, one field each; times are in milliseconds."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    # A constant in Kafka, not a setting: how long the coordinator keeps a new member's parked JoinGroup.
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    # Consumer groups (KIP-848)
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_max_size: int = 2**31 - 1
    consumer_upgrade: bool = True
    consumer_downgrade: bool = True
    # Share groups (KIP-932)
    share_max_size: int = 200
    # Streams groups (KIP-1071)
    streams_max_size: int = 2**31 - 1
    streams_settings_of: Callable[[str], StreamsSettings] = _usual_streams_settings
    # Return the timing of a group, given its type ("consumer", "share" or "streams") and its id. Called on every use,
    # because settings change at run time.
    pace_of: Callable[[str, str], Pace] = _usual_pace
