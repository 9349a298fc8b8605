"""Faults that cause unclean elections: the in-sync replicas are down while others are up."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from ottla.testing import ZOOKEEPER, Cluster
from tests.cluster.history.cluster_faults import ClusterFaults
from tests.cluster.history.observed_elections import UncleanElection
from tests.history.loss import Loss
from tests.history.recorder import PARTITIONS, TOPIC


class UncleanFaults(ClusterFaults):
    """All faults of other clusters except flipped bits, plus some of its own.

    `outliving` lists the periods in which a leader may have kept answering clients after another election.
    """

    def __init__(self, cluster: Cluster, seed: int, session_seconds: float) -> None:
        super().__init__(cluster, seed, session_seconds)
        self.outliving: list[tuple[float, float]] = []
        unclean: dict[str, Callable[[], None]] = {
            "unclean: last in sync killed": self._kill_last_in_sync,
            "unclean: two in sync killed": self._kill_two_in_sync,
            "unclean: last in sync cut off": self._cut_off_last_in_sync,
            "unclean: last in sync paused": self._pause_last_in_sync,
        }
        self._unclean = list(unclean)
        self._others = [kind for kind in self.kinds if not kind.startswith("bit flipped")]
        self.kinds |= unclean

    def kinds_for(self, seconds: float) -> Iterator[str]:
        """Yield fault kinds; every other one is an unclean election, or an attempt."""
        for kind in super().kinds_for(seconds):
            yield kind if kind in self._others else self.rng.choice(self._others)
            yield self.rng.choice(self._unclean)

    def losses(self, elections: Collection[UncleanElection]) -> list[Loss]:
        return [
            Loss(each.partition, each.epoch, each.left_isr_at, max(each.at, self._outlived(each.at)))
            for each in elections
        ]

    def _outlived(self, at: float) -> float:
        return max((end for begin, end in self.outliving if begin <= at <= end), default=at)

    # Faults

    def _alone(self) -> tuple[int, list[int]]:
        """Kill the followers of a leader that holds more records than they do."""
        leader = self._leader()
        others = [each for each in self._cluster.ports if each != leader]
        for other in others:
            self._cluster.kill(other)
        self._wait_for_isr({leader})
        self._linger()
        return leader, others

    def _wait_for_isr(self, isr: set[int]) -> None:
        """Wait for the ISR of every partition that these brokers can lead; others may have been down already."""

        def reached() -> bool:
            views = [self._cluster.partition(TOPIC, each) for each in range(PARTITIONS)]
            return all(view is not None and (set(view.isr) <= isr or view.leader == -1) for view in views)

        self._cluster.wait_until(reached, f"only {sorted(isr)} are in sync")

    def _wait_until_led(self, leaders: Collection[int]) -> None:
        """Wait until these brokers lead all partitions."""

        def led() -> bool:
            return all(self._cluster.leader(TOPIC, each) in leaders for each in range(PARTITIONS))

        self._cluster.wait_until(led, f"{sorted(leaders)} lead", 60)

    def _start(self, *brokers: int) -> None:
        for broker in brokers:
            self._cluster._launch(broker)
        self._cluster.wait_for_brokers(brokers)

    def _kill_last_in_sync(self) -> None:
        leader, others = self._alone()
        self._cluster.kill(leader)
        self._start(*others)
        self._wait_until_led(others)
        self._linger()
        self._start(leader)

    def _kill_two_in_sync(self) -> None:
        [lagging, *in_sync] = self.rng.sample(list(self._cluster.ports), 3)
        self._cluster.kill(lagging)
        self._wait_for_isr(set(in_sync))
        self._linger()
        for each in in_sync:
            self._cluster.kill(each)
        self._start(lagging)
        self._wait_until_led([lagging])
        self._linger()
        self._start(*in_sync)

    def _cut_off_last_in_sync(self) -> None:
        """Isolate the last in-sync leader while others are alive. Records written to it are lost."""
        leader, others = self._alone()
        begun = time.time()
        try:
            self._cluster.cut(leader)
            self._cluster.cut(leader, ZOOKEEPER)
            for other in others:
                self._cluster._launch(other)
            self._elected_without(leader, others)
            self._linger()
        finally:
            self._cluster.heal()
        self._until_it_knows(leader)
        self.outliving.append((begun, time.time()))

    def _pause_last_in_sync(self) -> None:
        leader, others = self._alone()
        begun = time.time()
        self._cluster.pause(leader)
        try:
            for other in others:
                self._cluster._launch(other)
            self._elected_without(leader, others)
            self._linger()
        finally:
            self._cluster.resume(leader)
        self._until_it_knows(leader)
        self.outliving.append((begun, time.time()))

    def _elected_without(self, leader: int, others: Collection[int]) -> None:
        """Return True if the reachable brokers see another leader. An isolated or paused broker cannot know."""

        def led() -> bool:
            return all(
                view is not None and view.leader in others
                for other in others
                for each in range(PARTITIONS)
                for view in [self._cluster.partition(TOPIC, each, broker=other)]
            )

        self._cluster.wait_until(led, f"others than {leader} lead", 60)

    def _until_it_knows(self, leader: int) -> None:
        """Wait until the broker knows. From then on its responses count again."""

        def knows() -> bool:
            views = [self._cluster.partition(TOPIC, each, broker=leader) for each in range(PARTITIONS)]
            return all(view is not None and view.leader != leader for view in views)

        self._cluster.wait_until(knows, f"{leader} knows that others lead", 60)
