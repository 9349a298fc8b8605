"""Share state, share-partitions and share sessions of a broker."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.coordinators.state_log import PartitionStateLog
from ottla.broker.share.share_partitions import SharePartitions
from ottla.broker.share.share_sessions import ShareSession, ShareSessions
from ottla.broker.share.state_persister import StatePersister
from ottla.cluster.peers import Peers
from ottla.coordinator.share.share_coordinator import ShareCoordinator
from ottla.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

# Maximum wait for a share coordinator before COORDINATOR_NOT_AVAILABLE.
_PATIENCE_SECONDS = 15.0
# Time for a coordinator beyond the replication timeout.
_MARGIN_SECONDS = 1.0


class Sharing:
    """Owner: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        timeout_ms = config.get_int("share.coordinator.write.timeout.ms")
        self.coordinator = ShareCoordinator(
            PartitionStateLog(broker.replicas, SHARE_GROUP_STATE_TOPIC, timeout_ms),
            broker.now_ms,
            config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        )
        # Separate connections: requests waiting for replicas would delay transaction markers.
        peers = Peers(broker.dialer, timeout_ms / 1000 + _MARGIN_SECONDS)
        self.persister = StatePersister(
            config.broker_id, self.coordinator, broker.image, peers, _PATIENCE_SECONDS
        )
        self.partitions = SharePartitions(broker, self.persister)
        self.sessions = ShareSessions(
            config.get_int("group.share.max.share.sessions"), self._session_ended, self.partitions.end_group
        )
        broker.groups.share.persister = self.persister

    async def ensure_topic(self) -> None:
        """Create the state topic with the first share group."""
        await self._broker.ensure_internal_topic(SHARE_GROUP_STATE_TOPIC)

    async def topic_deleted(self, topic_id: bytes) -> None:
        self.partitions.end_topic(topic_id)
        try:
            for pending in self.coordinator.delete_topics({topic_id}):
                await pending
        except KafkaError as error:
            log.warning("Cannot delete the share state of a deleted topic: %s", error)

    def close(self) -> None:
        self.partitions.close()
        self.persister.close()
        self.coordinator.runtime.close()

    def _session_ended(self, group_id: str, member_id: str, session: ShareSession) -> None:
        """Release the member's locks immediately."""
        for topic_id, index in session.partitions:
            live = self.partitions.known(group_id, topic_id, index)
            if live is not None:
                live.release(member_id)
