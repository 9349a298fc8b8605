"""Planning in the driver: partitions of a subscription, their bounds, and ranges for the tasks."""

from __future__ import annotations

import re

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.spark.source.data_loss import report
from ottla.spark.source.positions import Offsets
from ottla.spark.source.ranges import OffsetRange, split_ranges
from ottla.spark.source.source_options import SourceOptions, Subscription


class MissingPartition(ClientError):
    """A topic or partition named in the options does not exist."""


def existing_partitions(cluster: Cluster, subscription: Subscription) -> list[TopicPartition]:
    if subscription.pattern is not None:
        pattern = re.compile(subscription.pattern)
        topics = cluster.topics()
        names = [name for name, topic in topics.items() if pattern.fullmatch(name) and not topic.is_internal]
        return sorted(partition for name in names for partition in topics[name].partitions)
    if subscription.topics is not None:
        topics = cluster.topics(dict.fromkeys(subscription.topics))
        return sorted(partition for topic in topics.values() for partition in topic.partitions)
    wanted = set(subscription.assigned or ())
    topics = cluster.topics({partition.topic for partition in wanted})
    return sorted(wanted.intersection(each for topic in topics.values() for each in topic.partitions))


def all_partitions(cluster: Cluster, subscription: Subscription) -> list[TopicPartition]:
    """Return all partitions at the start of a query. Raises MissingPartition if a named partition is absent."""
    found = cluster.retrying(lambda: existing_partitions(cluster, subscription))
    missing = sorted(set(subscription.topics or ()) - {partition.topic for partition in found})
    if missing:
        raise MissingPartition(f"Topic '{missing[0]}' does not exist at {cluster.settings.servers}.")
    absent = sorted(set(subscription.assigned or ()) - set(found))
    if absent:
        raise MissingPartition(f"Partition {absent[0]} does not exist at {cluster.settings.servers}.")
    return found


def plan_batch(cluster: Cluster, options: SourceOptions) -> list[OffsetRange]:
    partitions = all_partitions(cluster, options.subscription)
    if not partitions:
        return []
    level = options.isolation_level
    start = options.starting.resolve(cluster, partitions, level)
    end = options.ending.resolve(cluster, partitions, level)
    if options.starting.offsets is not None or options.ending.offsets is not None:
        start, end = _within_bounds(cluster, options, start, end)
    ranges = [OffsetRange(each, start[each], end[each]) for each in partitions]
    if options.follow:
        return ranges  # including empty ranges, whose records may still arrive
    return split_ranges(ranges, options.min_partitions, options.max_records_per_partition)


def _within_bounds(
    cluster: Cluster, options: SourceOptions, start: Offsets, end: Offsets
) -> tuple[Offsets, Offsets]:
    """Clamp the offsets to the existing records. Report offsets outside as data loss."""
    first = list_offsets(cluster, dict.fromkeys(start, EARLIEST), options.isolation_level)
    last = list_offsets(cluster, dict.fromkeys(start, LATEST), options.isolation_level)
    for each in start:
        if start[each] < first[each].offset:
            _report(options, each, start[each], f"starts at {first[each].offset}")
        if end[each] > last[each].offset:
            _report(options, each, end[each], f"ends at {last[each].offset}")
    return (
        {each: max(start[each], first[each].offset) for each in start},
        {each: min(end[each], last[each].offset) for each in end},
    )


def _report(options: SourceOptions, partition: TopicPartition, offset: int, fact: str) -> None:
    report(f"Offset {offset} of {partition} is not there: it {fact}", fail=options.fail_on_data_loss)
