"""Promises of consumer groups under any order of events: a model of honest members, and members that die."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinator.groups.base.base_group import Assignment
from ottla.coordinator.groups.base.effects import TimerKind
from ottla.coordinator.groups.modern.consumer_state import ConsumerGroupState
from ottla.protocol.errors import KafkaError
from tests.coordinator.groups.consumer.consumer_machine import ConsumerMachine, FakeTopics

TOPICS = ("t", "u", "v")


class Client:
    """A member that behaves like a client: it holds its assignment, and reports it with the next heartbeat."""

    def __init__(self, member_id: str, topics: tuple[str, ...]) -> None:
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0
        self.held: Assignment = {}


class ConsumerGroupMachine(RuleBasedStateMachine):
    @initialize(assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, assignor: str) -> None:
        self.machine = ConsumerMachine(FakeTopics(t=3, u=2), consumer_assignors=(assignor,))
        self.clients: list[Client] = []
        self.number = 0
        self.group_epoch = 0
        self.epochs: dict[str, int] = {}

    @rule(topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def join(self, topics: set[str]) -> None:
        self.number += 1
        client = Client(f"m{self.number}", tuple(sorted(topics)))
        self.clients.append(client)
        self.beat(client)

    def beat(self, client: Client, *, lose_answer: bool = False) -> bool:
        try:
            result = self.machine.heartbeat(
                client.member_id,
                client.epoch,
                rebalance_timeout_ms=1_000,
                topics=client.topics,
                owned=client.held if client.epoch else {},
            )
        except KafkaError:
            client.epoch, client.held = 0, {}  # fenced: the member gives up everything and rejoins
            return True
        if lose_answer:
            return True
        changed = client.epoch != result.member_epoch
        client.epoch = result.member_epoch
        if result.assignment is not None and result.assignment != client.held:
            client.held = result.assignment
            changed = True
        return changed

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, lost: bool) -> None:
        self.beat(data.draw(st.sampled_from(self.clients)), lose_answer=lost)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def resubscribe(self, data: st.DataObject, topics: set[str]) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.topics = tuple(sorted(topics))
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        if client.member_id in self.machine.group.members:
            self.machine.heartbeat(client.member_id, -1)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), kind=st.sampled_from([TimerKind.SESSION, TimerKind.REBALANCE]))
    def time_is_up(self, data: st.DataObject, kind: TimerKind) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.machine.fire(kind, client.member_id)
        if client.member_id not in self.machine.group.members:
            client.held = {}  # a client notices its session timeout before the broker does

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 6))
    def topic_changes(self, topic: str, count: int) -> None:
        known = self.machine.topics.by_name(topic)
        if known is None or known.partitions < count:
            self.machine.topics.set(topic, count)

    @invariant()
    def no_partition_is_held_by_two(self) -> None:
        seen: set[tuple[bytes, int]] = set()
        for client in self.clients:
            for topic_id, held in client.held.items():
                for partition in held:
                    assert (topic_id, partition) not in seen
                    seen.add((topic_id, partition))

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
        for _ in range(6 * len(self.clients) + 6):
            changes = [self.beat(client) for client in self.clients]
            self.no_partition_is_held_by_two()
            if not any(changes):
                break
        else:
            raise AssertionError("the group does not come to rest")
        group = self.machine.group
        assert group.state is ConsumerGroupState.STABLE
        held = {(t, p) for client in self.clients for t, found in client.held.items() for p in found}
        wanted = set()
        for name in {name for client in self.clients for name in client.topics}:
            topic = self.machine.topics.by_name(name)
            if topic is not None:
                wanted |= {(topic.topic_id, p) for p in range(topic.partitions)}
        assert held == wanted


ConsumerGroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_consumer_group = ConsumerGroupMachine.TestCase
