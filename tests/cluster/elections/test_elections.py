"""Leader elections by Kafka's rules, without a cluster."""

from __future__ import annotations

from ottla.cluster import elections
from ottla.metadata.cluster_image import PartitionImage


def partition(
    leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), replicas: tuple[int, ...] = (1, 2, 3), epoch: int = 5
) -> PartitionImage:
    return PartitionImage("t", 0, leader, epoch, replicas, isr, partition_epoch=9)


def outcome(elected: PartitionImage | None) -> tuple[int, int, tuple[int, ...]] | None:
    if elected is None:
        return None
    assert elected.partition_epoch == 9  # the version on which the write is conditional
    return elected.leader, elected.leader_epoch, elected.isr


# Brokers come and go


def test_with_everybody_there_nothing_changes() -> None:
    assert elections.adjust(partition(), {1, 2, 3}) is None


def test_a_dead_leader_is_followed_by_the_first_replica_in_sync() -> None:
    assert outcome(elections.adjust(partition(), {2, 3})) == (2, 6, (2, 3))


def test_a_replica_that_is_not_in_sync_is_passed_over() -> None:
    assert outcome(elections.adjust(partition(isr=(1, 3)), {2, 3})) == (3, 6, (3,))


def test_the_order_of_replicas_counts_and_not_that_of_the_isr() -> None:
    assert outcome(elections.adjust(partition(isr=(1, 3, 2)), {2, 3})) == (2, 6, (3, 2))


def test_a_dead_follower_leaves_the_isr_and_the_leader_keeps_its_epoch() -> None:
    assert outcome(elections.adjust(partition(), {1, 3})) == (1, 5, (1, 3))


def test_without_anybody_in_sync_there_is_no_leader_and_the_isr_is_remembered() -> None:
    assert outcome(elections.adjust(partition(isr=(1,)), {2, 3})) == (-1, 6, (1,))


def test_a_partition_without_a_leader_is_not_written_again_and_again() -> None:
    assert elections.adjust(partition(leader=-1, isr=(1,)), {2, 3}) is None


def test_the_last_in_sync_leads_when_it_returns() -> None:
    assert outcome(elections.adjust(partition(leader=-1, isr=(1,)), {1, 2})) == (1, 6, (1,))


def test_an_unclean_election_takes_who_is_there_and_forgets_the_others() -> None:
    assert outcome(elections.adjust(partition(isr=(1,)), {3, 2}, unclean=True)) == (2, 6, (2,))


def test_an_unclean_election_still_prefers_who_is_in_sync() -> None:
    assert outcome(elections.adjust(partition(isr=(1, 3)), {2, 3}, unclean=True)) == (3, 6, (3,))


def test_a_partition_that_never_had_a_state_begins_with_the_first_that_is_there() -> None:
    new = PartitionImage("t", 0, -1, 0, (1, 2, 3), (), partition_epoch=elections.NO_STATE)
    first = elections.adjust(new, {2, 3})
    assert first is not None
    assert (first.leader, first.leader_epoch, first.isr) == (2, 0, (2, 3))
    assert elections.adjust(new, {4}) is None


# A broker shuts down, or restarts


def test_a_leaving_leader_hands_over_and_leaves_the_isr() -> None:
    assert outcome(elections.without(partition(), 1, {2, 3})) == (2, 6, (2, 3))


def test_a_leaving_follower_leaves_the_isr() -> None:
    assert outcome(elections.without(partition(), 3, {1, 2})) == (1, 5, (1, 2))


def test_the_last_in_sync_cannot_leave() -> None:
    assert elections.without(partition(isr=(1,)), 1, {2, 3}) is None


def test_nobody_leaves_to_a_leader_that_is_dead() -> None:
    assert elections.without(partition(leader=2, isr=(2, 1)), 1, {3}) is None


def test_a_leader_that_was_away_and_finds_nobody_goes_on_in_a_new_epoch() -> None:
    assert outcome(elections.lead_again(partition(), 1, {3})) == (1, 6, (1, 3))
    assert elections.lead_again(partition(), 2, {3}) is None


def test_the_new_epoch_is_above_all_that_the_log_has_seen() -> None:
    assert outcome(elections.lead_again(partition(), 1, {3}, seen_epoch=4)) == (1, 6, (1, 3))
    assert outcome(elections.lead_again(partition(), 1, {3}, seen_epoch=8)) == (1, 9, (1, 3))


def test_without_a_leader_only_the_only_replica_elects_itself() -> None:
    alone = partition(leader=-1, isr=(1,), replicas=(1,))
    assert outcome(elections.lead_again(alone, 1, ())) == (1, 6, (1,))
    assert elections.lead_again(partition(leader=-1, isr=(1,)), 1, ()) is None


# Requested elections


def test_the_preferred_replica_leads_if_it_is_in_sync_and_there() -> None:
    assert outcome(elections.prefer(partition(leader=2), {1, 2, 3})) == (1, 6, (1, 2, 3))
    assert elections.prefer(partition(leader=1), {1, 2, 3}) is None
    assert elections.prefer(partition(leader=2), {2, 3}) is None
    assert elections.prefer(partition(leader=2, isr=(2, 3)), {1, 2, 3}) is None


def test_an_unclean_election_that_is_asked_for_needs_a_partition_without_a_leader() -> None:
    assert elections.elect_unclean(partition(), {1}) is None
    assert outcome(elections.elect_unclean(partition(leader=-1, isr=(1,)), {3})) == (3, 6, (3,))
    assert elections.elect_unclean(partition(leader=-1, isr=(1,)), set()) is None


def test_a_reassignment_ends_with_a_leader_that_stays() -> None:
    assert elections.reassign(partition(), (1, 4), {1, 4}) is None
    assert outcome(elections.reassign(partition(isr=(1, 4, 5)), (4, 5), {1, 4, 5})) == (4, 6, (1, 4, 5))
    assert elections.reassign(partition(isr=(1,)), (4, 5), {1, 4, 5}) is None


# Preferred leaders


def test_a_broker_that_leads_too_few_of_its_own_gets_them_back() -> None:
    partitions = [PartitionImage("t", n, 1, 0, (1, 2), (1, 2), 0) for n in range(9)]
    astray = PartitionImage("t", 9, 2, 0, (1, 2), (1, 2), 0)
    assert elections.imbalanced([*partitions, astray], {1, 2}, 10) == []
    assert elections.imbalanced([*partitions[:8], astray], {1, 2}, 10) == [("t", 9)]
    assert elections.imbalanced([*partitions[:8], astray], {2}, 10) == []


def test_who_cannot_use_its_log_leaves_the_isr_and_leads_no_more() -> None:
    assert outcome(elections.give_up(partition(), 1, {1, 2, 3})) == (2, 6, (2, 3))
    assert outcome(elections.give_up(partition(), 2, {1, 2, 3})) == (1, 5, (1, 3))
    # The eligible replicas are offline. The controller waits for them instead of electing this one.
    assert outcome(elections.give_up(partition(), 1, {1})) == (-1, 6, (2, 3))
    assert outcome(elections.give_up(partition(leader=-1), 1, {1, 3})) == (3, 6, (2, 3))


def test_the_last_in_sync_stays_in_the_isr_though_it_cannot_use_its_log() -> None:
    assert outcome(elections.give_up(partition(isr=(1,)), 1, {1, 2, 3})) == (-1, 6, (1,))
    assert elections.give_up(partition(isr=(1,), leader=-1), 1, {1, 2, 3}) is None
    assert elections.give_up(partition(isr=(2, 3), leader=2), 1, {1, 2, 3}) is None


def test_who_has_just_come_back_leads_only_where_nobody_else_can() -> None:
    assert outcome(elections.adjust(partition(), {2, 3}, returned={2})) == (3, 6, (2, 3))
    assert outcome(elections.adjust(partition(), {2}, returned={2})) == (2, 6, (2,))
    assert outcome(elections.without(partition(), 1, {2, 3}, returned={2})) == (3, 6, (2, 3))
    assert outcome(elections.without(partition(), 1, {2}, returned={2})) == (2, 6, (2, 3))
