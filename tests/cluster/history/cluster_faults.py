"""Random faults for a cluster, and the time for which producers had to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import median

from ottla.testing import ZOOKEEPER, Cluster
from tests.cluster.faults.damage import Damage, flip_a_bit, segments
from tests.history.recorder import PARTITIONS, TOPIC, Faults, Recorder


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    begun: float
    over: float


class ClusterFaults(Faults):
    """Kills, stops, pauses and isolates brokers and ZooKeeper servers, fills and damages disks, sets clocks wrong.

    Each fault is undone before it returns, except for clocks, which stay wrong until the next change, and flipped bits.
    Only one bit is flipped at a time: a record whose copies are all damaged is lost.
    """

    def __init__(self, cluster: Cluster, seed: int, session_seconds: float) -> None:
        super().__init__(seed)
        self._cluster = cluster
        self._session_seconds = session_seconds
        self.faults: list[Fault] = []
        self._damage: Damage | None = None
        self._recorder: Recorder | None = None
        self.kinds: dict[str, Callable[[], None]] = {
            "leader killed": lambda: self._kill(self._leader()),
            "leader stopped": lambda: self._stop(self._leader()),
            "leader paused, its session goes on": lambda: self._pause(self._leader(), 0.5),
            "leader paused, its session ends": lambda: self._pause(self._leader(), 1.6),
            "follower killed": lambda: self._kill(self._follower()),
            "follower paused": lambda: self._pause(self._follower(), self.rng.uniform(0.1, 1.6)),
            "controller killed": lambda: self._kill(self._controller()),
            "controller paused": lambda: self._pause(self._controller(), 1.6),
            "two brokers killed": lambda: self._kill(*self.rng.sample(list(self._cluster.ports), 2)),
            "all brokers killed": lambda: self._kill(*self._cluster.ports),
            "ZooKeeper server killed": self._kill_zookeeper,
            "ZooKeeper server paused": self._pause_zookeeper,
            "ZooKeeper's majority killed": lambda: self._kill_zookeeper(2),
            "ZooKeeper's leader cut off from others": lambda: self._cut_zookeeper(
                [self._zookeepers_leader()]
            ),
            "ZooKeeper's follower cut off": lambda: self._cut_zookeeper([self._zookeepers_follower()]),
            "ZooKeeper's servers all cut off": lambda: self._cut_zookeeper(self._cluster.zookeeper.servers),
            "leader and ZooKeeper server killed": self._kill_leader_and_zookeeper,
            "leader cut off from brokers": lambda: self._cut(self._leader()),
            "leader cut off from ZooKeeper": lambda: self._cut(self._leader(), brokers=False),
            "leader cut off from all": lambda: self._cut(self._leader(), zookeeper=True),
            "leader mute to brokers": lambda: self._cut(self._leader(), one_way=True),
            "leader refused by brokers": lambda: self._cut(self._leader(), refuse=True),
            "follower cut off from brokers": lambda: self._cut(self._follower()),
            "follower cut off from all": lambda: self._cut(self._follower(), zookeeper=True),
            "controller cut off from ZooKeeper": lambda: self._cut(self._controller(), brokers=False),
            "controller cut off from all": lambda: self._cut(self._controller(), zookeeper=True),
            "all cut off from each other": lambda: self._cut(*self._cluster.ports),
            "leader killed while it is cut off": self._kill_while_cut_off,
            "clock set wrong": self._skew,
            "leader's disk full": lambda: self._fill_disk(self._leader()),
            "follower's disk full": lambda: self._fill_disk(self._follower()),
            "bit flipped in follower's last segment": lambda: self._flip(slice(-1, None)),
            "bit flipped in any segment": lambda: self._flip(slice(None)),
            "bit flipped, and others killed": self._flip_and_lead,
        }

    def strike(self, kind: str) -> None:
        begun = time.monotonic()
        try:
            self.kinds[kind]()
        finally:
            over = time.monotonic()
            self.times.append((begun, over))
            self.faults.append(Fault(kind, begun, over))

    def kinds_for(self, seconds: float) -> Iterator[str]:
        """Yield all kinds in random order, over and over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for kind in self.rng.sample(list(self.kinds), len(self.kinds)):
                if time.monotonic() < end:
                    yield kind

    def strike_for(self, seconds: float, recorder: Recorder) -> None:
        """Strike for the given time. Usually, but not always, the cluster has recovered before the next fault."""
        self._recorder = recorder
        for kind in self.kinds_for(seconds):
            self.strike(kind)
            self.wait_for_writes(recorder)
            if self.rng.random() < 0.7:
                self.wait_until_whole()
            time.sleep(self.rng.uniform(0.1, 1.0))

    def wait_for_writes(self, recorder: Recorder) -> None:
        """Wait until each partition has acknowledged a record."""
        since = len(recorder.acknowledged)
        self._cluster.wait_until(
            lambda: len({partition for _, partition in recorder.acknowledged[since:]}) == PARTITIONS,
            "every partition takes records",
            60,
        )

    def wait_until_whole(self) -> None:
        """Wait for full ISRs. A damaged replica may be in sync until a broker reads the damage."""
        if self._damage is not None and self._is_known_or_in_sync(self._damage):
            self.repair()
        for partition in range(PARTITIONS):
            self._cluster.wait_for_isr(TOPIC, self._cluster.ports, partition, 60)

    def repair(self) -> None:
        """Repair every replica, including damage that no broker has noticed."""
        if self._damage is not None:
            self._damage.repair(self._cluster)
            self._damage = None

    def _is_known_or_in_sync(self, damage: Damage) -> bool:
        """Return True if the broker has taken the log offline; otherwise the replica eventually joins the ISR."""

        def settled() -> bool:
            view = self._cluster.partition(TOPIC, damage.partition)
            return damage.is_known(self._cluster) or (view is not None and damage.broker in view.isr)

        self._cluster.wait_until(settled, f"{damage} is offline or in sync", 60)
        return damage.is_known(self._cluster)

    # Targets

    def _leader(self) -> int:
        return self._cluster.wait_for_leader(TOPIC, self.rng.randrange(PARTITIONS))

    def _follower(self) -> int:
        leader = self._leader()
        return self.rng.choice([each for each in self._cluster.ports if each != leader])

    def _controller(self) -> int:
        found = -1

        def known() -> bool:
            nonlocal found
            found = self._cluster.controller()
            return found in self._cluster.running()

        self._cluster.wait_until(known, "there is a controller")
        return found

    # Faults

    def _linger(self) -> None:
        time.sleep(self.rng.uniform(0.0, 2.0))

    def _kill(self, *brokers: int) -> None:
        for broker in brokers:
            self._cluster.kill(broker)
        self._linger()
        for broker in brokers:
            self._cluster._launch(broker)
        self._cluster.wait_for_brokers(brokers)

    def _stop(self, broker: int) -> None:
        assert self._cluster.stop(broker) == 0
        self._linger()
        self._cluster.restart(broker)

    def _pause(self, broker: int, sessions: float) -> None:
        self._cluster.pause(broker)
        try:
            time.sleep(self._session_seconds * sessions)
        finally:
            self._cluster.resume(broker)

    def _cut(self, *cut_off: int, brokers: bool = True, zookeeper: bool = False, **how: bool) -> None:
        """Cut a broker off from other brokers, from ZooKeeper, or from both, for shorter or longer than a session."""
        try:
            for broker in cut_off:
                if brokers:
                    self._cluster.cut(broker, **how)
                if zookeeper or not brokers:
                    self._cluster.cut(broker, ZOOKEEPER)
            time.sleep(self._session_seconds * self.rng.uniform(0.1, 1.6))
        finally:
            self._cluster.heal()

    def _kill_while_cut_off(self) -> None:
        leader = self._leader()
        self._cluster.cut(leader)
        try:
            self._linger()
            self._cluster.kill(leader)
            self._linger()
        finally:
            self._cluster.heal()
        self._cluster.restart(leader)

    def _fill_disk(self, broker: int) -> None:
        self._cluster.fill_disk(broker)
        self._linger()
        self._cluster.free_disk(broker)

    def _skew(self) -> None:
        broker = self.rng.choice(list(self._cluster.ports))
        self._cluster.skew(broker, self.rng.uniform(-600, 600))
        self._linger()

    def _zookeepers(self, count: int) -> list[int]:
        return self.rng.sample(list(self._cluster.zookeeper.servers), count)

    def _kill_zookeeper(self, count: int = 1) -> None:
        victims = self._zookeepers(count)
        for victim in victims:
            self._cluster.zookeeper.kill(victim)
        self._linger()
        for victim in victims:
            self._cluster.zookeeper.servers[victim].launch()
        for victim in victims:
            self._cluster.zookeeper.servers[victim].wait()

    def _pause_zookeeper(self) -> None:
        [victim] = self._zookeepers(1)
        self._cluster.zookeeper.pause(victim)
        try:
            time.sleep(self._session_seconds * self.rng.uniform(0.1, 1.6))
        finally:
            self._cluster.zookeeper.resume(victim)

    def _zookeepers_leader(self) -> int:
        zookeeper = self._cluster.zookeeper
        self._cluster.wait_until(lambda: zookeeper.leader() is not None, "ZooKeeper has a leader")
        return zookeeper.leader() or 1

    def _zookeepers_follower(self) -> int:
        leader = self._zookeepers_leader()
        return self.rng.choice([each for each in self._cluster.zookeeper.servers if each != leader])

    def _cut_zookeeper(self, servers: Iterable[int]) -> None:
        """Cut ZooKeeper servers off. Some cuts end before the servers notice; in others sessions expire."""
        for server in servers:
            self._cluster.zookeeper.cut(server)
        try:
            time.sleep(self._session_seconds * self.rng.uniform(0.5, 2.0))
        finally:
            self._cluster.zookeeper.heal()

    def _flip(self, where: slice) -> int:
        """Flip a bit in a follower's log while the follower is down. Return the partition."""
        self.repair()
        partition = self.rng.randrange(PARTITIONS)
        leader = self._cluster.wait_for_leader(TOPIC, partition)
        follower = self.rng.choice([each for each in self._cluster.ports if each != leader])
        self._cluster.kill(follower)
        said = self._cluster.log(follower).stat().st_size
        self._damage = Damage(follower, TOPIC, partition, said)
        flipped = flip_a_bit(
            self.rng, self.rng.choice(segments(self._cluster, follower, TOPIC, partition)[where])
        )
        print(f"{self._damage}: {flipped}")
        self._linger()
        self._cluster.restart(follower)
        return partition

    def _flip_and_lead(self) -> None:
        """If the damage is still unnoticed, let the damaged replica lead alone for a while and be read from the
        beginning.
        """
        self._flip(slice(None))
        damage = self._damage
        assert damage is not None
        if self._is_known_or_in_sync(damage):
            return
        others = [each for each in self._cluster.ports if each != damage.broker]
        for other in others:
            self._cluster.kill(other)
        reading = threading.Thread(target=self._read_all)
        reading.start()
        try:
            self._linger()
        finally:
            for other in others:
                self._cluster._launch(other)
            self._cluster.wait_for_brokers(others)
            reading.join()

    def _read_all(self) -> None:
        if self._recorder is not None:
            self._recorder.read_to_the_end()

    def _kill_leader_and_zookeeper(self) -> None:
        [victim] = self._zookeepers(1)
        self._cluster.zookeeper.kill(victim)
        try:
            self._kill(self._leader())
        finally:
            self._cluster.zookeeper.restart(victim)


def table(faults: Sequence[Fault], acknowledged: Sequence[tuple[float, int]]) -> str:
    """Return, per kind of fault, its count and the longest time for which a partition accepted no record."""
    gaps: list[tuple[float, float]] = []
    for partition in {partition for _, partition in acknowledged}:
        gaps += pairwise(when for when, where in acknowledged if where == partition)
    longest: dict[str, list[float]] = {}
    before = 0.0
    for fault, following in zip_longest(faults, faults[1:]):
        until = following.begun if following is not None else float("inf")
        # A gap that starts after a fault and reaches into the next one counts for the next one.
        of_this = [
            b - a for a, b in gaps if b > fault.begun and before < a < until and (a < fault.over or b < until)
        ]
        longest.setdefault(fault.kind, []).append(max(of_this, default=0.0))
        before = fault.over
    lines = [f"{'fault':<40} {'times':>5} {'median gap':>11} {'longest gap':>12}"]
    for kind, found in sorted(longest.items()):
        lines.append(f"{kind:<40} {len(found):>5} {median(found):>9.2f} s {max(found):>10.2f} s")
    return "\n".join(lines)
