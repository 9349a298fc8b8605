"""Sync of consumer groups from the source: checkpoints, and optionally committed offsets."""

from __future__ import annotations

import logging
import time

from ottla.client.admin.groups import committed, committed_offsets, describe_group, list_consumer_groups
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, commit_offsets, list_offsets
from ottla.mirror import formats, internal_topics
from ottla.mirror.formats import Checkpoint
from ottla.mirror.internal_topics import InternalWriter
from ottla.mirror.settings import FlowSettings
from ottla.mirror.translation import Translation
from ottla.protocol.errors import ErrorCode

log = logging.getLogger("ottla.mirror")

_DEAD = ("Dead", "Empty", "")


class GroupSync:
    """Owner: one thread of the flow, with its own connections."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, translation: Translation
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._translation = translation
        self._groups: list[str] = []
        self._written: dict[bytes, bytes] = {}

    def refresh(self) -> None:
        listed = list_consumer_groups(self._source)
        self._groups = sorted(each.group for each in listed if self._flow.groups(each.group))

    def checkpoints(self) -> dict[str, list[Checkpoint]]:
        """Return the checkpoints of each group. Offsets that cannot be translated yet are left for the next call."""
        found: dict[str, list[Checkpoint]] = {}
        for group in self._groups:
            for (topic, number), offset in committed(self._source, group).items():
                if not self._flow.should_copy(topic):
                    continue
                translated = self._translation.translate(TopicPartition(topic, number), offset.offset)
                if translated is None:
                    continue
                remote = self._flow.remote_topic(topic)
                found.setdefault(group, []).append(
                    Checkpoint(group, remote, number, offset.offset, translated, offset.metadata)
                )
        return found

    def emit(self, found: dict[str, list[Checkpoint]]) -> None:
        """Write only the changed checkpoints; the topic is compacted."""
        topic = self._flow.policy.checkpoints_topic(self._flow.source.alias)
        factor = self._flow.checkpoints_replication_factor
        internal_topics.ensure(self._target, topic, replication_factor=factor)
        entries = {each.key(): each.value() for some in found.values() for each in some}
        changed = [(key, value) for key, value in entries.items() if self._written.get(key) != value]
        if changed:
            InternalWriter(self._target).write_all(topic, changed, int(time.time() * 1000))
            self._written |= dict(changed)

    def sync_offsets(self, found: dict[str, list[Checkpoint]]) -> None:
        """Commit translated offsets for groups without members on the target. Never move an offset back."""
        for group, checkpoints in found.items():
            try:
                if describe_group(self._target, group).state not in _DEAD:
                    continue
                there = committed_offsets(self._target, group)
            except ClientError as error:
                if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                there = {}
            ahead = {
                TopicPartition(each.topic, each.partition): each.offset
                for each in checkpoints
                if each.offset > there.get((each.topic, each.partition), -1)
            }
            if not ahead:
                continue
            try:
                commit_offsets(self._target, group, ahead)
            except ClientError as error:
                # A member joined the group on the target, so the group now owns its offsets.
                if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
                    raise

    def forget_old_runs(self) -> None:
        by_target = {
            TopicPartition(self._flow.remote_topic(each.topic), each.partition): each
            for each in self._translation.partitions()
        }
        known = self._target.topics({each.topic for each in by_target}) if by_target else {}
        existing = [each for topic in known.values() for each in topic.partitions if each in by_target]
        if not existing:
            return
        first = list_offsets(self._target, dict.fromkeys(existing, EARLIEST))
        gone = [
            (formats.run_key(by_target[each], run), None)
            for each in existing
            for run in self._translation.forget_before(by_target[each], first[each].offset)
        ]
        if gone:
            topic = self._flow.policy.runs_topic(self._flow.source.alias)
            InternalWriter(self._target).write_all(topic, gone, int(time.time() * 1000))
