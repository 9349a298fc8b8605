"""All that this broker follows, by the broker that leads it."""

from __future__ import annotations

from ottla.cluster.partition import Partition
from ottla.cluster.peers import PeerDialer
from ottla.cluster.replication.follower_fetcher import ReplicaFetcher
from ottla.cluster.replication.follower_requests import FetcherSettings
from ottla.cluster.replication.log_start_checkpoints import LogStarts
from ottla.cluster.replication.replication_throttle import ReplicationThrottle
from ottla.log.log_directory import LogDirectory
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig


class ReplicaFetchers:
    """A fetcher for each broker that leads something which is replicated here. Owner: the event loop."""

    def __init__(
        self, config: BrokerConfig, image: ClusterImage, directories: list[LogDirectory], dialer: PeerDialer
    ) -> None:
        self._config = config
        self._dialer = dialer
        self._by_leader: dict[int, ReplicaFetcher] = {}
        self._where: dict[Partition, ReplicaFetcher] = {}
        self._closed = False
        self._log_starts = LogStarts(directories, self.show)
        self.throttle = ReplicationThrottle.of_followers(config.broker_id, config, image)

    def follow(self, partition: Partition) -> None:
        """Fetch from the leader that the partition has now, in its epoch of now."""
        self.unfollow(partition)
        if self._closed:
            return  # a broker that leaves hands over what it leads, and must not get in sync again
        fetcher = self._by_leader.get(partition.leader)
        if fetcher is None:
            fetcher = self._by_leader[partition.leader] = ReplicaFetcher(
                self._config.broker_id,
                partition.leader,
                FetcherSettings.of(self._config),
                self._dialer,
                self.throttle,
                self._log_starts,
            )
        self._where[partition] = fetcher
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        fetcher = self._where.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def show(self, partition: Partition) -> None:
        """Let the leader know where this replica is now, or is still, though it is out of the ISR."""
        fetcher = self._where.get(partition)
        if fetcher is not None:
            fetcher.show(partition)

    async def close(self) -> None:
        self._closed = True
        fetchers = list(self._by_leader.values())
        self._by_leader.clear()
        self._where.clear()
        for fetcher in fetchers:
            await fetcher.close()
        await self._log_starts.close()
