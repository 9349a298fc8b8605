"""What all types of groups share: members, settings and topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from ottla.coordinator.groups.base.committed_offsets import GroupOffsets
from ottla.coordinator.groups.base.effects import (
    Answer,
    Effect,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
    TimerKey,
)
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.share.share_coordinator import ShareKey

# Settings of the group coordinator, with Kafka's defaults.


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


# The coordinator's view of topics: enough to assign partitions.

# Partitions by topic id.
Assignment = Mapping[bytes, frozenset[int]]


class Topic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int


class Topics(Protocol):
    """Current topics of the cluster. `version` changes with every change of the topics."""

    @property
    def version(self) -> int: ...

    def names(self) -> Collection[str]:
        """Return every topic, including internal ones: as in Kafka, consumer patterns may match them."""
        ...

    def by_name(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: bytes) -> Topic | None: ...


class NoTopics:
    version = 0

    def names(self) -> Collection[str]:
        return ()

    def by_name(self, name: str) -> Topic | None:
        return None

    def by_id(self, topic_id: bytes) -> Topic | None:
        return None


NamedPartitions = list[tuple[str, bytes, list[int]]]  # topic name, topic id, partitions


def named_partitions(topics: Topics, *by_id: Mapping[bytes, Iterable[int]]) -> NamedPartitions:
    """Merge partitions by topic id and sort them by topic name, skipping deleted topics."""
    united: dict[bytes, set[int]] = {}
    for each in by_id:
        for topic_id, partitions in each.items():
            united.setdefault(topic_id, set()).update(partitions)
    named = []
    for topic_id, found in united.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            named.append((topic.name, topic_id, sorted(found)))
    return sorted(named)


# Interface between the coordinator and groups of every type.

# Records of a transition, and effects to execute once the records are in the log.
Decision = tuple[list[KeyValue], list[Effect]]


class Group(ABC):
    """A pure state machine: time arrives as `now_ms` and `on_timer`, and outputs leave as records and effects.

    A transition with records can be rolled back until they are in the log. Owner: the event loop, through the shard.
    """

    __slots__ = ("group_id", "offsets")

    group_type: ClassVar[str]
    # True if the coordinator forgets the group once it is empty and its offsets have expired.
    expires: ClassVar[bool] = True

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offsets = GroupOffsets()

    # Properties

    @property
    @abstractmethod
    def state(self) -> StrEnum: ...

    @property
    @abstractmethod
    def protocol_type(self) -> str | None: ...

    @property
    @abstractmethod
    def uses_consumer_protocol(self) -> bool: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool: ...

    @property
    def has_pending_members(self) -> bool:
        """Return True if a client holds a fresh member id and is about to join."""
        return False

    @property
    def gives_way_to_classic(self) -> bool:
        """Return True if a first JoinGroup replaces this group by a classic group."""
        return False

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    def share_keys(self) -> list[ShareKey]:
        """Return the share-partitions with stored state for this group."""
        return []

    # Offset expiration

    @property
    def offsets_may_expire(self) -> bool:
        return True

    @property
    def empty_since(self) -> int | None:
        """Return the start of the retention time; None counts from each commit."""
        return None

    # JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Groups without classic members refuse these requests.

    def join(self, request: JoinRequest, ticket: object, now_ms: int) -> Decision:
        return [], [Answer(ticket, JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))]

    def sync(self, request: SyncRequest, ticket: object, now_ms: int) -> Decision:
        return [], [Answer(ticket, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))]

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> tuple[ErrorCode, list[Effect]]:
        return ErrorCode.UNKNOWN_MEMBER_ID, []

    def leave(
        self, leaving: Sequence[LeavingMember], now_ms: int
    ) -> tuple[list[ErrorCode], list[KeyValue], list[Effect]]:
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving), [], []

    # OffsetCommit, TxnOffsetCommit and OffsetFetch

    @abstractmethod
    def commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
        *,
        knows_epochs: bool = True,
    ) -> tuple[ErrorCode, list[Effect]]:
        """Check whether this member may commit offsets. `knows_epochs`: the request version has member epochs."""

    @abstractmethod
    def check_transactional_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
    ) -> ErrorCode:
        """Check a commit in a transaction. Old producers name no member and always pass."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if this member may not fetch offsets."""
        return

    # Events

    @abstractmethod
    def on_timer(self, key: TimerKey, now_ms: int) -> Decision: ...

    @abstractmethod
    def start_sessions(self, now_ms: int) -> list[Effect]:
        """Start a session timeout for every member after loading the group from the log."""

    @abstractmethod
    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        """Stop the group after a deletion, a conversion or a move to another coordinator."""

    # Records

    @abstractmethod
    def tombstones(self) -> list[KeyValue]:
        """Return the tombstones of the group, except those for its offsets."""

    def stored(self) -> None:
        """Confirm the last transition: its records are in the log."""
        return

    def rollback(self) -> None:
        """Undo the last transition because its records could not be written."""
        return
