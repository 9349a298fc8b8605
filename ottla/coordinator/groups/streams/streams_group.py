"""The streams group of KIP-1071. Each member is a thread of a Kafka Streams application.

The first member sends the topology. The broker validates it against the existing topics, assigns its tasks and
reconciles members by heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.coordinator.groups.base.base_group import (
    Assignment,
    Decision,
    GroupConfig,
    StreamsSettings,
    Topics,
)
from ottla.coordinator.groups.base.effects import (
    JOIN_TIMER,
    CancelTimer,
    Effect,
    SetTimer,
    TimerKey,
    TimerKind,
    rebalance_timer,
)
from ottla.coordinator.groups.modern.consumer_state import FIRST_EPOCH, JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.groups.modern.modern_group import ModernGroup
from ottla.coordinator.groups.modern.target_assignment import metadata_hash
from ottla.coordinator.groups.streams.assignor import TaskMember, assign_sticky
from ottla.coordinator.groups.streams.streams_records import difference, tombstones
from ottla.coordinator.groups.streams.streams_state import (
    NO_TASKS,
    MemberState,
    Role,
    StreamsGroupDescription,
    StreamsGroupState,
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
    StreamsMember,
    StreamsState,
    Task,
    Tasks,
    endpoint_partitions,
    reconcile,
)
from ottla.coordinator.groups.streams.topology import (
    ConfiguredTopology,
    Status,
    StatusCode,
    Topology,
    configure,
    validate,
)
from ottla.coordinator.groups.streams.topology_description import DescriptionKeeper
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError


class StreamsGroup(ModernGroup[StreamsState, StreamsMember]):
    """Invariants: see `ModernGroup`; a task has at most one active member, and no process has a task twice."""

    group_type = "streams"
    uses_consumer_protocol = True

    def __init__(self, group_id: str, config: GroupConfig, topics: Topics) -> None:
        super().__init__(group_id, StreamsState(epoch=FIRST_EPOCH), config, config.streams_max_size, topics)
        self._configured: ConfiguredTopology | None = None
        self._metadata_hash = 0
        # Holders of each task in any role, including members still revoking it; True if active there.
        self._holders: dict[Task, dict[str, bool]] = {}
        # In memory only, as in Kafka: a failover resets these fields.
        self._endpoint_epoch = 0
        self._shutdown_member_id: str | None = None
        self._initial_delay_ends_ms = 0
        self.description = DescriptionKeeper()

    # Properties

    @property
    def state(self) -> StreamsGroupState:
        now = self.state_now
        if self.dead:
            return StreamsGroupState.DEAD
        if not now.members:
            return StreamsGroupState.EMPTY
        if not self._topology_now().is_ready:
            return StreamsGroupState.NOT_READY
        if now.epoch > now.target_epoch:
            return StreamsGroupState.ASSIGNING
        for member in now.members.values():
            if member.state is not MemberState.STABLE or member.epoch != now.target_epoch:
                return StreamsGroupState.RECONCILING
        return StreamsGroupState.STABLE

    @property
    def gives_way_to_classic(self) -> bool:
        return self.is_empty

    @property
    def settings(self) -> StreamsSettings:
        return self.config.streams_settings_of(self.group_id)

    def is_subscribed_to(self, topic: str) -> bool:
        topology = self.state_now.topology
        return (
            bool(self.members)
            and topology is not None
            and any(topic in sub.reads() for sub in topology.subtopologies)
        )

    def describe(self) -> StreamsGroupDescription:
        now = self.state_now
        return StreamsGroupDescription(
            self.group_id,
            state=self.state.value,
            epoch=now.epoch,
            assignment_epoch=now.target_epoch,
            topology=None if now.topology is None else self._topology_now(),
            topology_description=None if now.topology is None else self.description.of(now.topology.epoch),
            members=[(m, now.targets.get(m.member_id, NO_TASKS)) for m in self.members.values()],
        )

    def describe_topology(self, member_id: str, topology_epoch: int, description: Any) -> None:
        """Keep the description that a member sends."""
        if member_id not in self.members:
            self.no_member(member_id)
        topology = self.state_now.topology
        current = -1 if topology is None else topology.epoch
        if topology_epoch != current:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topology epoch {topology_epoch} does not match the group's current topology epoch {current}.",
            )
        self.description.store(topology_epoch, description)

    # StreamsGroupHeartbeat

    def streams_heartbeat(
        self, request: StreamsHeartbeatRequest, now_ms: int
    ) -> tuple[StreamsHeartbeatResult, list[KeyValue], list[Effect]]:
        """Handle a heartbeat. Raises KafkaError without changing the group."""
        try:
            if request.member_epoch == LEAVE_EPOCH:
                result = self._leave(request)
            else:
                result = self._join_or_stay(request, now_ms)
        except KafkaError:
            self.rollback()
            raise
        return (result, *self.drain())

    # Offsets

    def commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
        *,
        knows_epochs: bool = True,
    ) -> tuple[ErrorCode, list[Effect]]:
        if generation_id < 0 and not self.members:
            return ErrorCode.NONE, []  # an admin client
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, []
        if not knows_epochs:
            return ErrorCode.UNSUPPORTED_VERSION, []
        # A commit may be in flight when the epoch grows. Tasks that the member held throughout are still its own.
        is_current = generation_id == member.epoch or (
            partitions is not None
            and 0 <= generation_id < member.epoch
            and self._held_since(member, partitions(), generation_id)
        )
        return ErrorCode.NONE if is_current else ErrorCode.STALE_MEMBER_EPOCH, []

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.members.get(member_id or "")
        if member is None:
            self.no_member(member_id or "")
        if member_epoch != member.epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def _held_since(self, member: StreamsMember, partitions: Assignment, epoch: int) -> bool:
        topology = self.state_now.topology
        if topology is None:
            return False
        for topic_id, wanted in partitions.items():
            topic = self.topics.by_id(topic_id)
            readers = [s for s in topology.subtopologies if topic is not None and topic.name in s.reads()]
            for partition in wanted:
                if not any(
                    member.assigned.active.get(sub.subtopology_id, {}).get(partition, epoch + 1) <= epoch
                    for sub in readers
                ):
                    return False
        return True

    # Internals

    def _join_or_stay(self, request: StreamsHeartbeatRequest, now_ms: int) -> StreamsHeartbeatResult:
        is_joining = request.member_epoch == JOIN_EPOCH
        settings = self.settings
        if is_joining and self.is_empty and settings.initial_rebalance_delay_ms:
            self._initial_delay_ends_ms = now_ms + settings.initial_rebalance_delay_ms
            self.effects.append(SetTimer(JOIN_TIMER, settings.initial_rebalance_delay_ms))
        known = self._member_of(request)
        member = known or StreamsMember(request.member_id)
        updated = self._updated(member, request)
        if updated is not member or known is None:
            self.put(updated)
        changed = known is None or updated.metadata() != member.metadata()
        if request.topology is not None:
            changed = self._learn_topology(request.topology) or changed
        self._refresh(settings, changed=changed)
        delayed = self._assign_if_due(now_ms)
        reconciled = self._reconcile(self.members[updated.member_id], request.owned)
        self.keep_session(reconciled)
        if request.shutdown_application:
            self._shutdown_member_id = request.member_id
        result = StreamsHeartbeatResult(
            reconciled.member_id,
            reconciled.epoch,
            self.pace.heartbeat_interval_ms,
            self._statuses(reconciled, delayed),
            topology_epoch=self._topology_now().topology.epoch,
            to_create=self._topology_now().to_create,
        )
        has_changed = reconciled.assigned.ids() != member.assigned.ids()
        # Kafka does not repeat the tasks for a member that missed the response, and that member would wait forever.
        if is_joining or has_changed or request.is_full:
            result.tasks = reconciled.assigned.ids()
        self._add_endpoints(result, request, reconciled, is_joining or has_changed)
        return result

    def _member_of(self, request: StreamsHeartbeatRequest) -> StreamsMember | None:
        member = self.members.get(request.member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                self.no_member(request.member_id)
            self.check_room()
            return None
        epoch = request.member_epoch
        if epoch in (member.epoch, JOIN_EPOCH):
            return member
        # The member may have missed the response with its new epoch.
        missed = epoch == member.previous_epoch and epoch < member.epoch
        if missed and request.owned is not None and member.assigned.contains(request.owned):
            return member
        self.wrong_epoch(member, epoch)

    def _updated(self, member: StreamsMember, request: StreamsHeartbeatRequest) -> StreamsMember:
        updated = replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=(
                member.rebalance_timeout_ms
                if request.rebalance_timeout_ms == -1
                else request.rebalance_timeout_ms
            ),
            topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
            process_id=member.process_id if request.process_id is None else request.process_id,
            user_endpoint=member.user_endpoint if request.user_endpoint is None else request.user_endpoint,
            client_tags=member.client_tags if request.client_tags is None else request.client_tags,
            client_id=request.client_id,
            client_host=request.client_host,
        )
        return member if updated == member else updated

    def _leave(self, request: StreamsHeartbeatRequest) -> StreamsHeartbeatResult:
        member = self.members.get(request.member_id)
        if member is None:
            self.no_member(request.member_id)
        self.remove(member)
        return StreamsHeartbeatResult(request.member_id, request.member_epoch)

    def _statuses(self, member: StreamsMember, delayed: str | None) -> list[Status]:
        topology = self.state_now.topology
        statuses = []
        if topology is not None and member.topology_epoch < topology.epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{topology.epoch}."
            )
            statuses.append(Status(StatusCode.STALE_TOPOLOGY, detail))
        if delayed is not None:
            detail = f"Assignment delayed due to the configured {delayed}."
            statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))
        problem = self._topology_now().problem
        if problem is not None:
            statuses.append(problem)
        if self._shutdown_member_id is not None:
            detail = (
                f"Streams group member {self._shutdown_member_id} encountered a fatal error and requested a shutdown "
                "for the entire application."
            )
            statuses.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
        return statuses

    def _add_endpoints(
        self,
        result: StreamsHeartbeatResult,
        request: StreamsHeartbeatRequest,
        member: StreamsMember,
        has_changed: bool,
    ) -> None:
        """Tell members which instance serves which state, for interactive queries."""
        is_news = has_changed and member.user_endpoint is not None
        if is_news and self._is_stored:
            self._endpoint_epoch += 1
        if is_news or request.endpoint_epoch != self._endpoint_epoch:
            result.endpoints = endpoint_partitions(self._topology_now(), self.members.values())
        result.endpoint_epoch = self._endpoint_epoch

    # Changes

    def state_replaced(self) -> None:
        self._configured = None
        self._holders = {}
        for member in self.members.values():
            self._hold(member)

    def put(self, member: StreamsMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        super().put(member)
        self._hold(member)

    def drop(self, member: StreamsMember) -> None:
        self._release(member)
        super().drop(member)

    def remove(self, member: StreamsMember) -> None:
        super().remove(member)
        if self.is_empty:
            self._shutdown_member_id = None
            self.effects.append(CancelTimer(JOIN_TIMER))

    def _hold(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for role in Role:
                for task in held.tasks(role):
                    holders = self._holders.setdefault(task, {})
                    is_active = role is Role.ACTIVE or holders.get(member.member_id, False)
                    holders[member.member_id] = is_active

    def _release(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for role in Role:
                for task in held.tasks(role):
                    holders = self._holders.get(task, {})
                    holders.pop(member.member_id, None)
                    if not holders:
                        self._holders.pop(task, None)

    def difference(self, before: StreamsState | None) -> list[KeyValue]:
        return difference(self.group_id, before or StreamsState(), self.state_now)

    def tombstones(self) -> list[KeyValue]:
        return tombstones(self.group_id, self.state_now)

    # Events

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision:
        if key == JOIN_TIMER:
            if self.members:
                self._initial_delay_ends_ms = 0
                self._assign_if_due(now_ms)
            return self.drain()
        return super().on_timer(key, now_ms)

    def start_sessions(self, now_ms: int) -> list[Effect]:
        for member in self.members.values():
            if member.state is MemberState.UNREVOKED_TASKS:
                self.effects.append(SetTimer(rebalance_timer(member.member_id), member.rebalance_timeout_ms))
        return super().start_sessions(now_ms)

    def is_overdue(self, member: StreamsMember, kind: TimerKind) -> bool:
        if kind is TimerKind.REBALANCE:
            return member.state is MemberState.UNREVOKED_TASKS
        return kind is TimerKind.SESSION

    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        return [CancelTimer(JOIN_TIMER), *super().die(error, now_ms)]

    # Target assignment

    def _learn_topology(self, topology: Topology) -> bool:
        """Store the topology from the first member. Raises KafkaError for an unacceptable topology."""
        known = self.state_now.topology
        if known is None:
            validate(topology)
            self.change().topology = topology
            self._configured = None
            return True
        if topology.epoch >= known.epoch and not _is_same(topology, known):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return False

    def _topology_now(self) -> ConfiguredTopology:
        """Return the topology configured with the topics as of the last heartbeat."""
        if self._configured is None:
            topology = self.state_now.topology or Topology(-1)
            self._configured = configure(topology, self.topics)
            topics = map(self.topics.by_name, topology.topics())
            self._metadata_hash = metadata_hash(topic for topic in topics if topic is not None)
            self._topics_version = self.topics.version
        return self._configured

    def _refresh(self, settings: StreamsSettings, *, changed: bool) -> None:
        """Start a new epoch if members, topics or settings have changed since the last one."""
        if self._topics_version != self.topics.version:
            self._configured = None
        configured = self._topology_now()
        state = self.state_now
        now = (
            self._metadata_hash,
            configured.topology.epoch if configured.is_ready else -1,
            (("num.standby.replicas", str(settings.num_standby_replicas)),),
        )
        if now != (state.metadata_hash, state.validated_topology_epoch, state.assignment_configs):
            state = self.change()
            state.metadata_hash, state.validated_topology_epoch, state.assignment_configs = now
            changed = True
        if changed:
            self.bump_epoch()

    def _assign_if_due(self, now_ms: int) -> str | None:
        """Compute a new target if necessary. Return the reason for a delay, if any."""
        state = self.state_now
        if state.target_epoch >= state.epoch:
            return None
        if now_ms < self._initial_delay_ends_ms:
            return "initial rebalance delay"
        if not self.is_assignment_due(now_ms):
            return "assignment interval"
        self._assign(now_ms)
        return None

    def _assign(self, now_ms: int) -> None:
        state = self.change()
        configured = self._topology_now()
        members = {
            member_id: TaskMember(member.process_id, state.targets.get(member_id, NO_TASKS))
            for member_id, member in state.members.items()
        }
        if configured.is_ready:
            stateful = [sub.subtopology_id for sub in configured.topology.subtopologies if sub.is_stateful]
            standbys = self.settings.num_standby_replicas
            targets = assign_sticky(members, configured.task_counts, stateful, standbys)
        else:
            targets = dict.fromkeys(members, NO_TASKS)
        for member_id, target in targets.items():
            if state.targets.get(member_id) != target:
                state.targets[member_id] = target
        state.target_epoch = state.epoch
        state.target_timestamp_ms = now_ms

    def _reconcile(self, member: StreamsMember, owned: Tasks | None) -> StreamsMember:
        state = self.state_now

        def is_free(role: Role, task: Task) -> bool:
            holders = self._holders.get(task, {})
            if role is Role.ACTIVE and any(holders.values()):
                return False
            return not any(self.members[other].process_id == member.process_id for other in holders)

        target = state.targets.get(member.member_id, NO_TASKS)
        updated = reconcile(member, state.target_epoch, target, is_free, owned)
        if updated is member or updated.current() == member.current():
            return member
        self.put(updated)
        key = rebalance_timer(member.member_id)
        if updated.state is MemberState.UNREVOKED_TASKS:
            self.effects.append(SetTimer(key, updated.rebalance_timeout_ms))
        else:
            self.effects.append(CancelTimer(key))
        return updated


def _is_same(some: Topology, other: Topology) -> bool:
    """Compare two topologies, ignoring the order of subtopologies."""
    return some.epoch == other.epoch and _by_id(some) == _by_id(other)


def _by_id(topology: Topology) -> dict[str, object]:
    return {sub.subtopology_id: sub for sub in topology.subtopologies}
