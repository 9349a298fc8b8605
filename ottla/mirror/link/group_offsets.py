"""Sync of committed offsets. Offsets are the same on both sides and need no translation."""

from __future__ import annotations

from collections.abc import Collection

from ottla.client.admin.groups import committed_offsets, describe_group, list_consumer_groups
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import LATEST, commit_offsets, list_offsets
from ottla.mirror.link.settings import LinkSettings
from ottla.protocol.errors import ErrorCode

_INACTIVE = ("Dead", "Empty", "")
#: Keep this short: copying waits for the commit, and the next sync repeats it soon.
_COMMIT_SECONDS = 5.0


def sync_group_offsets(link: LinkSettings, source: Cluster, target: Cluster, topics: Collection[str]) -> None:
    """Commit offsets for groups without members on the target, limited to the copied records."""
    for listed in list_consumer_groups(source):
        group = listed.group
        if not link.flow.groups(group):
            continue
        here = {
            TopicPartition(*each): offset
            for each, offset in committed_offsets(source, group).items()
            if each[0] in topics
        }
        if not here:
            continue
        try:
            if describe_group(target, group).state not in _INACTIVE:
                continue
            there = committed_offsets(target, group)
        except ClientError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            there = {}
        ends = list_offsets(target, dict.fromkeys(here, LATEST))
        wanted = {each: min(offset, ends[each].offset) for each, offset in here.items()}
        # If a group moves back on the source, the target follows.
        changed = {
            each: offset
            for each, offset in wanted.items()
            if offset != there.get((each.topic, each.partition), -1)
        }
        if not changed:
            continue
        try:
            commit_offsets(target, group, changed, _COMMIT_SECONDS)
        except ClientError as error:
            # A member joined the group on the target, so the group now owns its offsets.
            if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
                raise
