"""Offsets that were committed in transactions: they wait for the marker that says whether they count."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ottla.coordinator.groups.offsets.coordinator import OffsetCoordinator, OffsetToCommit
from ottla.coordinator.groups.offsets.offsets import CommittedOffset
from ottla.coordinator.groups.offsets.pending_offsets import ProducerEpoch
from ottla.coordinator.groups.records import OffsetKey, offset_key, offset_value
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError


class TransactionalOffsetCoordinator(OffsetCoordinator):
    """Pending offsets are invisible, and those who ask for stable ones only are told to come again.

    Owned by the event loop.
    """

    def commit_transactional_offsets(
        self,
        group_id: str,
        producer: ProducerEpoch,
        offsets: Sequence[OffsetToCommit],
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        generation_id: int = -1,
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Write offsets that count once the producer's transaction commits. One error per offset, in order.

        Replicas are waited for: a transaction must not commit without offsets that a leader took along when it died.
        """
        try:
            shard = self._shards.of(group_id)
            group = shard.groups.get(group_id)
            if group is None:
                # As with plain commits, nobody needs to have joined.
                error = ErrorCode.NONE if generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
            else:
                error = group.check_transactional_commit(member_id, group_instance_id, generation_id)
            if error:
                return [error] * len(offsets)
            now_ms = self._shards.clock()
            longest = self._shards.config.offset_metadata_max_bytes
            errors, records = [], list[KeyValue]()
            accepted: list[tuple[OffsetKey, CommittedOffset]] = []
            for topic, partition, offset, leader_epoch, metadata, topic_id in offsets:
                if metadata is not None and len(metadata) > longest:
                    errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                    continue
                committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, -1, topic_id)
                records.append((offset_key(group_id, topic, partition), offset_value(committed)))
                accepted.append((OffsetKey(group_id, topic, partition), committed))
                errors.append(ErrorCode.NONE)
            if records:
                pending = self._shards.append(shard, records, producer)
                for key, committed in accepted:
                    shard.pending_offsets.add(producer.producer_id, key, committed)
                if pending is not None:
                    return self._when_replicated(pending, errors)
            return errors
        except KafkaError as failure:
            return [failure.code] * len(offsets)
        except ValueError:
            return [ErrorCode.INVALID_GROUP_ID] * len(offsets)

    async def _when_replicated(self, pending: Awaitable[None], errors: list[ErrorCode]) -> list[ErrorCode]:
        try:
            await self._shards.committed(pending)
        except KafkaError as failure:
            return [error or failure.code for error in errors]
        return errors

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Does a transaction that has not ended yet commit this offset?"""
        return self._shards.of(group_id).pending_offsets.is_pending(OffsetKey(group_id, topic, partition))

    def check_marker(self, partition: int) -> None:
        """A marker for a partition that is still being read would be missed: it has to come again."""
        shard = self._shards.find(partition)
        if shard is not None and shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """A marker was written to this partition of `__consumer_offsets`."""
        shard = self._shards.find(partition)
        if shard is None:
            return
        for key, committed in shard.pending_offsets.end(producer_id):
            if commit and committed is not None:
                self._put_offsets(shard, key.group_id, [(key.topic, key.partition, committed)])
