"""Determine where a follower truncates a log that diverged from its leader's (KIP-101, KIP-279, KIP-595).

`FollowerFetcher._truncate` applies this rule to the leader's answer; `Partition.truncate_to` truncates the log.
"""

from __future__ import annotations

EpochEnd = tuple[int, int]  # leader epoch and the offset after its last record

UNDEFINED = -1


def truncation_offset(log_end_offset: int, high_watermark: int, own: EpochEnd, leaders: EpochEnd) -> int:
    """Return the truncation offset, given the ends of the same epoch in the leader's log and in this one.

    `leaders` is the leader's largest epoch at or below the last epoch here. `own` is the end of that epoch here, or of
    the largest epoch before it. If the two epochs differ, the next fetch returns an earlier one, until both logs know
    it.
    """
    leader_epoch, leader_end = leaders
    if leader_end == UNDEFINED:
        return high_watermark  # nothing is known about earlier records: only committed ones are certain
    own_epoch, own_end = own
    if own_end == UNDEFINED:
        return min(leader_end, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, log_end_offset)
    return min(own_end, leader_end, log_end_offset)
