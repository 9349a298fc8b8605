"""Everything of share groups that is not a group: state, partitions and sessions, for as long as the broker runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_wiring import CoordinatorLeadership, PartitionStateLog
from ottla.broker.share.group_state_requests import ShareGroupStates
from ottla.broker.share.share_partitions import SharePartitions
from ottla.broker.share.share_sessions import ShareSession, ShareSessions
from ottla.broker.share.state_access import ShareStates
from ottla.cluster.peers import Peers
from ottla.coordinator.share.share_coordinator import ShareStateStore
from ottla.coordinator.share.state_records import SHARE_STATE_TOPIC
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

# For how long a coordinator is looked for, before a member or an admin hears that there is none.
_PATIENCE_SECONDS = 15.0
# What a coordinator needs beyond the time that its replicas may take.
_MARGIN_SECONDS = 1.0


class Sharing:
    """Owner: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        timeout_ms = config.get_int("share.coordinator.write.timeout.ms")
        self.store = ShareStateStore(
            PartitionStateLog(broker.replicas, SHARE_STATE_TOPIC, timeout_ms),
            broker.now_ms,
            config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        )
        # Connections of their own: what waits for replicas would hold up the markers of transactions.
        peers = Peers(broker.dialer, timeout_ms / 1000 + _MARGIN_SECONDS)
        self.states = ShareStates(config.broker_id, self.store, broker.image, peers, _PATIENCE_SECONDS)
        self.partitions = SharePartitions(broker, self.states)
        self.sessions = ShareSessions(
            config.get_int("group.share.max.share.sessions"), self._session_ended, self.partitions.end_group
        )
        broker.groups.share_states = ShareGroupStates(self.states)
        self.leadership = CoordinatorLeadership(self.store, SHARE_STATE_TOPIC, broker.replicas, broker.image)

    async def ensure_topic(self) -> None:
        """The state topic comes into being with the first share group."""
        await self._broker.ensure_internal_topic(SHARE_STATE_TOPIC)

    async def topic_deleted(self, topic_id: bytes) -> None:
        self.partitions.end_topic(topic_id)
        try:
            for pending in self.store.delete_topics({topic_id}):
                await pending
        except KafkaError as error:
            log.warning("the share state of a deleted topic was not removed: %s", error)

    def close(self) -> None:
        self.partitions.close()
        self.states.close()

    def _session_ended(self, group_id: str, member_id: str, session: ShareSession) -> None:
        """What the member had locked goes to others at once."""
        for topic_id, index in session.partitions:
            live = self.partitions.known(group_id, topic_id, index)
            if live is not None:
                live.release(member_id)
