"""The fetchers of this broker: one per leader of a partition replicated here."""

from __future__ import annotations

from ottla.cluster.partitions.partition import Partition
from ottla.cluster.peers import PeerDialer
from ottla.cluster.replication.follower_fetcher import FollowerFetcher
from ottla.cluster.replication.follower_requests import FetcherSettings, RebuildState
from ottla.cluster.replication.log_start_checkpoints import LogStartCheckpoints
from ottla.cluster.replication.replication_throttle import ReplicationThrottle
from ottla.log.log_directory import LogDirectory
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError


class FetcherPool:
    """Invariant: only the fetcher of the current leader fetches a partition. Owner: the event loop."""

    def __init__(
        self, config: BrokerConfig, image: ClusterImage, directories: list[LogDirectory], dialer: PeerDialer
    ) -> None:
        self._config = config
        self._dialer = dialer
        self._by_leader: dict[int, FollowerFetcher] = {}
        self._where: dict[Partition, FollowerFetcher] = {}
        self._closed = False
        self.rebuilt_state: RebuildState | None = None  # with tiered storage
        self._log_starts = LogStartCheckpoints(directories, self.show)
        self.throttle = ReplicationThrottle.of_followers(config.broker_id, config, image)

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's current leader, in the current epoch."""
        self.unfollow(partition)
        if self._closed:
            return  # a leaving broker gives up its leaderships and must not rejoin the ISR
        fetcher = self._by_leader.get(partition.leader)
        if fetcher is None:
            fetcher = self._by_leader[partition.leader] = FollowerFetcher(
                self._config.broker_id,
                partition.leader,
                FetcherSettings.of(self._config),
                self._dialer,
                self.throttle,
                self._log_starts,
                self._rebuilt_state,
            )
        self._where[partition] = fetcher
        fetcher.add(partition)

    async def _rebuilt_state(
        self, partition: Partition, leader_local_start: int, epoch: int
    ) -> tuple[int, list[tuple[int, int]], bytes]:
        if self.rebuilt_state is None:
            raise KafkaError(
                ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                "its first records are in remote storage, and this broker has remote.log.storage.system.enable=false",
            )
        return await self.rebuilt_state(partition, leader_local_start, epoch)

    def unfollow(self, partition: Partition) -> None:
        fetcher = self._where.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def show(self, partition: Partition) -> None:
        """Report this replica's offsets to the leader again, although nothing was fetched."""
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
