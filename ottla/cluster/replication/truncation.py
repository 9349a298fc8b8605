"""Where a follower truncates its log when it has diverged from its leader's (KIP-101, KIP-279, KIP-595).

The rule only. `FollowerFetcher._truncate` applies it to what the leader answers, `Partition.truncate_to` cuts the log.
"""

from __future__ import annotations

EpochEnd = tuple[int, int]  # a leader epoch and the offset after its last record

UNDEFINED = -1


def truncation_offset(log_end_offset: int, high_watermark: int, own: EpochEnd, leaders: EpochEnd) -> int:
    """The offset to truncate to, given where the leader's log and the one here end in the same epoch.

    `leaders` is the largest epoch that the leader has at or below the last one here; `own` is what the log here has of
    that epoch, or of the largest one before it. If the two epochs differ, the next fetch brings an earlier one, until
    both logs know it.
    """
    leader_epoch, leader_end = leaders
    if leader_end == UNDEFINED:
        return high_watermark  # nothing is known of what came before: only what is committed is sure
    own_epoch, own_end = own
    if own_end == UNDEFINED:
        return min(leader_end, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, log_end_offset)
    return min(own_end, leader_end, log_end_offset)
