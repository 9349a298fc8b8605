"""Promises of streams groups under any order of events: a model of honest members, and members that die."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinator.groups.base.effects import rebalance_timer, session_timer
from ottla.coordinator.groups.streams.streams_state import Role, StreamsGroupState, Task, Tasks
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.consumer.consumer_machine import FakeTopics
from tests.coordinator.groups.streams.machine import WORD_COUNT, StreamsMachine


class Client:
    """A thread that behaves like Kafka Streams: it holds its assigned tasks, reports changes, and reports everything
    after a missed response.
    """

    def __init__(self, member_id: str, process_id: str) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.epoch = 0
        self.held = Tasks()
        self.says_everything = True
        self.says_tasks = False

    def tasks(self) -> list[tuple[Role, Task]]:
        return [
            (role, Task(subtopology, partition))
            for role in Role
            for subtopology, partitions in self.held.of(role).items()
            for partition in partitions
        ]


class StreamsGroupMachine(RuleBasedStateMachine):
    @initialize(standbys=st.integers(0, 2))
    def begin(self, standbys: int) -> None:
        self.machine = StreamsMachine(FakeTopics(lines=3, r=3, c=3), num_standby_replicas=standbys)
        self.clients: list[Client] = []
        self.number = 0
        self.group_epoch = 0
        self.epochs: dict[str, int] = {}

    @precondition(lambda self: len(self.clients) < 5)
    @rule(process=st.sampled_from("pqr"))
    def join(self, process: str) -> None:
        self.number += 1
        client = Client(f"m{self.number}", process)
        self.clients.append(client)
        self.beat(client)

    def beat(self, client: Client, *, lose_answer: bool = False) -> bool:
        fields: dict[str, object] = {}
        if client.epoch == 0:
            fields = {"topology": WORD_COUNT}
        if client.epoch == 0 or client.says_everything:
            fields |= {"rebalance_timeout_ms": 1_000, "process_id": client.process_id, "client_tags": ()}
            fields["owned"] = client.held
        elif client.says_tasks:
            fields["owned"] = client.held
        try:
            result = self.machine.heartbeat(client.member_id, client.epoch, **fields)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_MAX_SIZE_REACHED:
                return False
            client.epoch, client.held = 0, Tasks()  # fenced: the member gives up everything and rejoins
            client.says_everything = True
            return True
        if lose_answer:
            client.says_everything = True
            return True
        client.says_everything = client.says_tasks = False
        changed = client.epoch != result.member_epoch
        client.epoch = result.member_epoch
        if result.tasks is not None and result.tasks != client.held:
            client.held = result.tasks
            client.says_tasks = changed = True
        return changed

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, lost: bool) -> None:
        self.beat(data.draw(st.sampled_from(self.clients)), lose_answer=lost)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        if client.member_id in self.machine.group.members:
            self.machine.heartbeat(client.member_id, -1)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), timer=st.sampled_from([session_timer, rebalance_timer]))
    def time_is_up(self, data: st.DataObject, timer: object) -> None:
        client = data.draw(st.sampled_from(self.clients))
        assert callable(timer)
        self.machine.fire(timer(client.member_id))
        if client.member_id not in self.machine.group.members:
            client.held = Tasks()  # a client notices its session timeout before the broker does

    @rule()
    def fail_over(self) -> None:
        if self.machine.log:
            self.machine.fail_over()

    @rule(partitions=st.integers(1, 4))
    def topics_change(self, partitions: int) -> None:
        for name in ("lines", "r", "c"):
            self.machine.topics.set(name, partitions)

    @invariant()
    def no_task_is_active_twice_and_no_process_has_it_twice(self) -> None:
        active: set[Task] = set()
        by_process: set[tuple[str, Task]] = set()
        for client in self.clients:
            for role, task in client.tasks():
                if role is Role.ACTIVE:
                    assert task not in active
                    active.add(task)
                assert (client.process_id, task) not in by_process
                by_process.add((client.process_id, task))

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.machine.group
        assert group.epoch >= self.group_epoch
        self.group_epoch = group.epoch
        assert group.state_now.target_epoch <= group.epoch
        for member_id, member in group.members.items():
            assert self.epochs.get(member_id, 0) <= member.epoch <= group.state_now.target_epoch
            assert member.previous_epoch <= member.epoch
        self.epochs = {member_id: member.epoch for member_id, member in group.members.items()}

    def teardown(self) -> None:
        """Every member converges: after enough heartbeats everything is assigned, and heartbeats change nothing."""
        if not getattr(self, "clients", None):
            return
        for _ in range(8 * len(self.clients) + 8):
            changes = [self.beat(client) for client in self.clients]
            self.no_task_is_active_twice_and_no_process_has_it_twice()
            if not any(changes):
                break
        else:
            raise AssertionError("the group does not come to rest")
        group = self.machine.group
        assert group.state is StreamsGroupState.STABLE
        held = [task for client in self.clients for role, task in client.tasks() if role is Role.ACTIVE]
        lines = self.machine.topics.by_name("lines")
        assert lines is not None
        assert sorted(held) == sorted(Task(s, p) for s in ("0", "1") for p in range(lines.partitions))
        loads = [sum(role is Role.ACTIVE for role, _ in client.tasks()) for client in self.clients]
        assert max(loads) - min(loads) <= 1
        standbys = [task for client in self.clients for role, task in client.tasks() if role is Role.STANDBY]
        processes = {client.process_id for client in self.clients}
        wanted = min(self.machine.settings.num_standby_replicas, len(processes) - 1)
        assert sorted(standbys) == sorted(
            Task("1", p) for p in range(lines.partitions) for _ in range(wanted)
        )


StreamsGroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_streams_group = StreamsGroupMachine.TestCase
