"""A distributed worker: a member of the group, and possibly its leader.

Safety: a connector runs here only while this worker is a member and owns the connector. A worker without contact to the
group for most of a session stops its connectors before the session ends, because the group may then assign them to
other workers. Transactional ids additionally fence sources.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.group_member import GroupMember, GroupTimes, Membership
from ottla.client.log import Fenced
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker import config_state, errors
from ottla.connect.worker.config_state import Change, Config, ConfigState
from ottla.connect.worker.config_store import KafkaConfigStore
from ottla.connect.worker.distributed import group_protocol
from ottla.connect.worker.distributed.assignor import Assignor
from ottla.connect.worker.distributed.group_protocol import Assignment, WorkerState
from ottla.connect.worker.distributed.requests_to_leader import new_session_key, send_task_configs
from ottla.connect.worker.errors import PassOn, RequestError
from ottla.connect.worker.herder import Herder, with_task_class
from ottla.connect.worker.internal_topics import ensure_topic, internal_topic
from ottla.connect.worker.local_connectors import LocalConnectors, Wanted
from ottla.connect.worker.offset_requests import OffsetRequests
from ottla.connect.worker.status_store import KafkaStatusStore

_log = logging.getLogger(__name__)

_TICK_SECONDS = 0.25
#: Maximum wait of a request for a leader.
_LEADER_SECONDS = 10.0


class _Assigned(NamedTuple):
    membership: Membership
    assignment: Assignment


class _Lost(NamedTuple):
    pass


_Event = _Assigned | _Lost | Change | None


class DistributedHerder(Herder):
    """Owner of this worker's assignment: one thread, which gets all other input as events."""

    type = group_protocol.PROTOCOL_TYPE

    def __init__(
        self,
        worker: WorkerConfig,
        configs: KafkaConfigStore,
        statuses: KafkaStatusStore,
        connectors: LocalConnectors,
        offsets: OffsetRequests,
    ) -> None:
        super().__init__(worker, configs, statuses, connectors, offsets)
        self._kafka_configs = configs
        self._url = ""
        self._assignor = Assignor(worker.values["scheduled.rebalance.max.delay.ms"] / 1000)
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._given: set[str] = set()
        #: Assignment of the latest generation, whether already started or not.
        self._promised: frozenset[str] = frozenset()
        self._latest = -1
        self._assignment: Assignment | None = None
        self._leads = False
        self._owners: dict[str, str] = {}
        self._known = threading.Condition()
        self._applying = threading.Lock()
        self._rejoin_at: float | None = None
        self._stopping = threading.Event()
        self._member: GroupMember | None = None
        self._thread = threading.Thread(target=self._run, name="connect-herder", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="connect-watch", daemon=True)
        configs.on_change = self._events.put
        connectors.on_stopped = self._stopped_locally
        connectors.on_tasks = self._store_tasks

    # Start and stop

    def start(self, url: str, worker_id: str) -> None:
        """Raises ConfigError, ClientError."""
        self._url = url
        self.connectors.worker_id = worker_id
        with closing(Cluster(self.worker.client_settings)) as cluster:
            ensure_topic(cluster, internal_topic(self.worker, "offset"))
            self.cluster_id = cluster.metadata(()).cluster_id or ""
        self.statuses.start()
        self.configs.start()
        values = self.worker.values
        times = GroupTimes(
            values["session.timeout.ms"] / 1000,
            values["rebalance.timeout.ms"] / 1000,
            values["heartbeat.interval.ms"] / 1000,
        )
        self._times = times
        self._member = GroupMember(
            self.worker.client_settings, self.worker.group_id, self, times, "connect-member"
        )
        self._thread.start()
        self._member.start()
        self._watcher.start()

    def stop(self) -> None:
        """Stop the connectors before leaving the group, so that the next owner finds them stopped."""
        self._stopping.set()
        self._events.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self.connectors.stop_all(self.worker.shutdown_timeout + 30)
        if self._member is not None:
            self._member.stop()
        self.statuses.stop()
        self.configs.stop()

    # Group callbacks, in the member's thread

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        state = self.configs.state()
        owned = self._promised | self.connectors.names
        own = WorkerState(
            self._url,
            state.offset,
            {name: group_protocol.with_connector(len(state.tasks(name))) for name in sorted(owned)},
        )
        allowed = dict(group_protocol.VERSIONS)
        if self.worker.values["connect.protocol"].lower() != "sessioned":
            del allowed["sessioned"]
        return [(name, group_protocol.encode_metadata(own, version)) for name, version in allowed.items()]

    def assign(self, membership: Membership, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Assign connectors as the leader, after reading all configs that any member has read.

        Otherwise no worker would run the newest connectors.
        """
        states = {name: group_protocol.decode_metadata(data) for name, data in members.items()}
        newest = max(each.config_offset for each in states.values())
        try:
            self._kafka_configs.wait_for(newest, self.worker.values["worker.sync.timeout.ms"] / 1000)
        except ClientError as error:
            _log.warning("The leader does not know all configs yet: %s", error)
        state = self.configs.state()
        others = [each.url for each in states.values() if not each.is_ours]
        if others:
            _log.error(
                "Group %s has workers of Apache Kafka, at %s. Workers of both kinds can follow each other, but not run "
                "at the same time: stop those of one kind. Meanwhile nothing is moved.",
                self.worker.group_id,
                ", ".join(others),
            )
            return self._as_it_is(membership, states, state.offset)
        owned = {name: set(each.connectors) for name, each in states.items()}
        found = self._assignor.assign(membership.generation, owned, state.connectors, time.monotonic())
        version = group_protocol.VERSIONS.get(membership.protocol, 0)

        def tasks(names: set[str]) -> dict[str, list[int]]:
            return {each: group_protocol.with_connector(len(state.tasks(each))) for each in sorted(names)}

        self._owners = {each: states[name].url for name, given in found.assigned.items() for each in given}
        return {
            name: group_protocol.encode_assignment(
                Assignment(
                    membership.member_id,
                    self._url,
                    state.offset,
                    tasks(found.assigned[name]),
                    tasks(found.revoked[name]),
                    int(found.delay * 1000),
                ),
                version,
            )
            for name in members
        }

    def _as_it_is(
        self, membership: Membership, states: Mapping[str, WorkerState], offset: int
    ) -> dict[str, bytes]:
        """Return an unchanged assignment: ours keep their connectors, and Kafka's workers get no changes."""
        version = group_protocol.VERSIONS.get(membership.protocol, 0)
        return {
            name: group_protocol.encode_assignment(
                Assignment(membership.member_id, self._url, offset, each.connectors if each.is_ours else {}),
                version,
            )
            for name, each in states.items()
        }

    def assigned(self, membership: Membership, assignment: bytes) -> None:
        found = group_protocol.decode_assignment(assignment)
        self._promised, self._latest = frozenset(found.connectors), membership.generation
        self._events.put(_Assigned(membership, found))

    def lost(self) -> None:
        self._promised, self._latest = frozenset(), -1
        self._events.put(_Lost())

    # The herder's thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                event: _Event = self._events.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                event = None
            try:
                self._handle(event)
                self._see_to_timers()
            except (ClientError, Fenced) as error:
                _log.warning("The worker joins its group again: %s", error)
                if isinstance(error, Fenced):
                    self._leads = False
                self._rejoin_at = time.monotonic() + 1.0
            except Exception:
                _log.exception("The worker could not handle %s", event)

    def _handle(self, event: _Event) -> None:
        match event:
            case _Assigned() if event.membership.generation == self._latest:
                self._join_generation(event.membership, event.assignment)
            case _Lost():
                self._lose("the group does not know this worker any more")
            case Change():
                self._config_changed(event)

    def _see_to_timers(self) -> None:
        if self._rejoin_at is not None and time.monotonic() >= self._rejoin_at and self._member is not None:
            self._rejoin_at = None
            self._member.rejoin()
        key = self.configs.state().session_key
        if self._leads and key is not None:
            age_ms = time.time_ns() // 1_000_000 - key.created_ms
            if age_ms > self.worker.values["inter.worker.key.ttl.ms"]:
                self.configs.put([config_state.session_key_entry(new_session_key(self.worker))])

    def _watch(self) -> None:
        """Watch the session in a separate thread, because the herder's thread may wait for the cluster."""
        assert self._member is not None
        # Stopping takes a while, and must finish before the session ends.
        margin = min(self._times.session / 3, self.worker.shutdown_timeout)
        longest = max(self._times.session - margin, 2 * self._times.heartbeat)
        while not self._stopping.wait(_TICK_SECONDS):
            silent = time.monotonic() - self._member.heard
            if silent > longest and self._assignment is not None and not self._member.is_joining:
                self._lose(f"nothing was heard of the group for {silent:.1f} s")
                self._member.rejoin()

    def _join_generation(self, membership: Membership, assignment: Assignment) -> None:
        self._kafka_configs.wait_for(
            assignment.config_offset, self.worker.values["worker.sync.timeout.ms"] / 1000
        )
        if not assignment.is_ours:
            _log.error(
                "The leader of group %s, %s, is a worker of Apache Kafka. Workers of both kinds can follow each other, "
                "but not run at the same time: stop those of one kind. Meanwhile this one runs nothing.",
                self.worker.group_id,
                assignment.leader_url,
            )
            assignment = Assignment(assignment.leader, assignment.leader_url, assignment.config_offset)
        if membership.is_leader and not self._leads:
            self._take_over()
        self.connectors.generation = membership.generation
        with self._known:
            if membership.generation != self._latest:
                return  # the assignment is already outdated
            self._given = set(assignment.connectors)
            self._leads = membership.is_leader
            self._assignment = assignment
            self._known.notify_all()
        self._rejoin_at = time.monotonic() + assignment.delay_ms / 1000 if assignment.delay_ms > 0 else None
        if self._leads:
            self._forget_deleted()
        self.is_ready = True
        self.apply()

    def apply(self) -> None:
        # Read the desired state inside the lock, so that a later call sees later changes.
        with self._applying:
            super().apply()

    def _take_over(self) -> None:
        """Fence the previous leader, by writing a new session key to the config topic."""
        self._kafka_configs.take_over()
        self.configs.put([config_state.session_key_entry(new_session_key(self.worker))])
        _log.info("This worker, %s, leads group %s.", self._url, self.worker.group_id)

    def _forget_deleted(self) -> None:
        """Delete the statuses of connectors that were deleted while their worker was away."""
        names = self.configs.state().connectors
        statuses = self.statuses.state()
        for name in set(statuses.connectors) | set(statuses.tasks):
            if name not in names and (name in statuses.connectors or statuses.tasks.get(name)):
                self._forget(name, statuses)

    def _lose(self, why: str) -> None:
        """Thread-safe."""
        with self._known:
            if self._assignment is None:
                return
            self._leads = False
            self._assignment = None
            self._given = set()
            self._promised, self._latest = frozenset(), -1
        _log.warning("This worker stops its connectors, because %s.", why)
        self.apply()

    def _config_changed(self, change: Change) -> None:
        if change.logger is not None:
            self.loggers.set(*change.logger)
        if change.restart is not None:
            self.connectors.restart(change.restart)
        if change.connectors and self._member is not None:
            self._member.rejoin()
        self.apply()

    def wanted(self, state: ConfigState) -> dict[str, Wanted]:
        return {
            name: Wanted(state.connectors[name], state.target(name), bool(state.tasks(name)))
            for name in self._given
            if name in state.connectors
        }

    def _stopped_locally(self, name: str) -> None:
        """Runs in a connector's thread. The next owner waits for this rejoin."""
        state = self.configs.state()
        if name not in state.connectors:
            self._forget(name, self.statuses.state())
        elif self._member is not None and not self._stopping.is_set():
            self._member.rejoin()

    # Tasks

    def _store_tasks(self, name: str, configs: Sequence[Config]) -> None:
        """Runs in a thread of the engine or of the connector."""
        state = self.configs.state()
        if name not in state.connectors or not configs:
            return
        wanted = with_task_class(state.connectors[name], configs)
        if state.tasks(name) == wanted:
            return
        threading.Thread(
            target=self._send_tasks, args=(name, wanted), name=f"connect-tasks-{name}", daemon=True
        ).start()

    def _send_tasks(self, name: str, configs: list[Config]) -> None:
        while not self._stopping.is_set() and name in self._given:
            state = self.configs.state()
            if name not in state.connectors or state.tasks(name) == configs:
                return
            try:
                if self._leads:
                    self.put_task_configs(name, configs)
                    return
                assignment, key = self._assignment, state.session_key
                if assignment is not None and key is not None:
                    send_task_configs(assignment.leader_url, name, configs, key, self.worker)
                    return
            except (OSError, ClientError, RequestError, PassOn, Fenced) as error:
                _log.info("The configs of the tasks of %s are sent again: %s", name, error)
            self._stopping.wait(1.0)

    # Requests

    def require_leader(self) -> None:
        with self._known:
            if not self._known.wait_for(lambda: self._assignment is not None, _LEADER_SECONDS):
                raise RequestError(
                    500,
                    "Request timed out. The worker is currently ensuring membership in the cluster, which began "
                    "before the request was made and is not over.",
                )
            assert self._assignment is not None
            if not self._leads:
                raise PassOn(self._assignment.leader_url)

    def require_owner(self, connector: str) -> None:
        if connector in self._given:
            return
        self.require_leader()
        url = self._owners.get(connector, "")
        if not url or url == self._url:
            raise errors.rebalance_expected()
        raise PassOn(url)

    def lost_leadership(self) -> None:
        """Rejoin after a rejected write, or one with unknown outcome, because the group decides on the leader."""
        with self._known:
            self._leads = False
        if self._member is not None:
            self._member.rejoin()
