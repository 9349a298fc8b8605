"""Everything of share groups that is not a group: state, partitions and sessions, for as long as the broker runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.group_wiring import CoordinatorLeadership, PartitionStateLog
from ottla.broker.share_partitions import SharePartitions
from ottla.broker.share_sessions import ShareSession, ShareSessions
from ottla.coordinator.share_state import SHARE_STATE_TOPIC
from ottla.coordinator.share_state_store import ShareStateStore
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)


class Sharing:
    """Owner: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        self.states = ShareStateStore(
            PartitionStateLog(broker.replicas, SHARE_STATE_TOPIC),
            broker.now_ms,
            config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        )
        self.partitions = SharePartitions(broker, self.states)
        self.sessions = ShareSessions(config.get_int("group.share.max.share.sessions"), self._session_ended)
        broker.groups.share_states = self.states
        self.leadership = CoordinatorLeadership(self.states, SHARE_STATE_TOPIC, broker.replicas, broker.image)

    async def ensure_topic(self) -> None:
        """The state topic comes into being with the first share group."""
        await self._broker.ensure_internal_topic(SHARE_STATE_TOPIC)

    def topic_deleted(self, topic_id: bytes) -> None:
        self.partitions.forget_topic(topic_id)
        try:
            self.states.delete_topics({topic_id})
        except KafkaError as error:
            log.warning("the share state of a deleted topic was not removed: %s", error)

    def close(self) -> None:
        self.partitions.close()

    def _session_ended(self, group_id: str, member_id: str, session: ShareSession) -> None:
        """What the member had locked goes to others at once."""
        for topic_id, index in session.partitions:
            live = self.partitions.known(group_id, topic_id, index)
            if live is not None:
                try:
                    live.release(member_id)
                except KafkaError as error:
                    log.warning("locks of %s in group %s were not released: %s", member_id, group_id, error)
