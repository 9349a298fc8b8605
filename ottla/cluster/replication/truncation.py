"""Where a follower has to cut its log before it can go on behind its leader (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

EpochEnd = tuple[int, int]  # a leader epoch and the offset after its last record

UNDEFINED = -1


def truncation_offset(log_end_offset: int, high_watermark: int, own: EpochEnd, leaders: EpochEnd) -> int:
    """The offset to cut at, given how far the leader has the epoch, or one before it, and how far it is here.

    `leaders` names the largest epoch that the leader has at or below the last one here; `own` is what the log here says
    of that epoch. If it does not know it, the next fetch will bring an earlier epoch, until both know it.
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
