"""Topic requirements of a topology. The expected values are Apache Kafka 4.3.0's responses."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.streams.topology import (
    ConfiguredTopology,
    CopartitionGroup,
    InternalTopic,
    StatusCode,
    Subtopology,
    Topology,
    configure,
    validate,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.consumer.consumer_machine import FakeTopics

INCORRECT = StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def configured(*subtopologies: Subtopology, **counts: int) -> ConfiguredTopology:
    topology = Topology(0, subtopologies)
    validate(topology)
    return configure(topology, FakeTopics(**{"in2": 2, "in3": 3, "in5": 5, **counts}))


def repartition(*topics: InternalTopic, sources: tuple[str, ...] = (), **fields: object) -> list[Subtopology]:
    sinks = tuple(topic.name for topic in topics)
    return [
        Subtopology("0", ("in5",), repartition_sink_topics=sinks),
        Subtopology("1", sources, repartition_source_topics=topics, **fields),  # type: ignore[arg-type]
    ]


def test_a_subtopology_has_a_task_per_partition_of_its_largest_topic() -> None:
    found = configured(Subtopology("0", ("in2", "in3")), Subtopology("1", ("in5",)))
    assert found.is_ready
    assert found.task_counts == {"0": 3, "1": 5}


def test_repartition_topics_have_as_many_partitions_as_what_their_writers_read() -> None:
    chain = [
        Subtopology("0", ("in5",), repartition_sink_topics=("a",)),
        Subtopology("1", repartition_source_topics=(InternalTopic("a"),), repartition_sink_topics=("b",)),
        Subtopology(
            "2", repartition_source_topics=(InternalTopic("b"),), changelog_topics=(InternalTopic("c"),)
        ),
    ]
    found = configured(*chain)
    assert found.problem == (
        StatusCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: a, b, c",
    )
    assert [(topic.name, topic.partitions) for topic in found.to_create] == [("a", 5), ("b", 5), ("c", 5)]
    assert configured(*chain, a=5, b=5, c=5).is_ready


def test_an_application_may_fix_the_partitions_of_a_repartition_topic() -> None:
    [topic] = configured(*repartition(InternalTopic("r", 3))).to_create
    assert topic.partitions == 3


def test_a_repartition_topic_follows_the_source_topic_that_it_is_joined_with() -> None:
    group = (CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,)),)
    subtopologies = repartition(InternalTopic("r"), sources=("in3",), copartition_groups=group)
    [topic] = configured(*subtopologies).to_create
    assert topic.partitions == 3


def test_a_source_topic_that_serves_as_changelog_is_not_created() -> None:
    assert configured(Subtopology("0", ("in2",), changelog_topics=(InternalTopic("in2"),))).is_ready


def test_configs_and_replication_factor_are_passed_on() -> None:
    topic = InternalTopic("c", 0, 3, (("cleanup.policy", "compact"),))
    [found] = configured(Subtopology("0", ("in2",), changelog_topics=(topic,))).to_create
    assert found == InternalTopic("c", 2, 3, (("cleanup.policy", "compact"),))


def test_missing_source_topics_are_named() -> None:
    found = configured(Subtopology("0", ("zb", "za")), Subtopology("1", ("zc", "in2")))
    assert found.problem == (StatusCode.MISSING_SOURCE_TOPICS, "Source topics za, zb, zc are missing.")


BOTH = (CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,)),)
TWO = (CopartitionGroup(repartition_source_topics=(0, 1)),)


@pytest.mark.parametrize(
    ("subtopologies", "detail"),
    [
        (
            [Subtopology("0", ("in2", "in3"), copartition_groups=(CopartitionGroup((0, 1)),))],
            "Following topics do not have the same number of partitions: [{in2=2, in3=3}]",
        ),
        (
            [Subtopology("0", ("in2",), changelog_topics=(InternalTopic("in5-changelog"),))],
            "Existing topic in5-changelog has different number of partitions: expected 2, found 5",
        ),
        (
            repartition(InternalTopic("r", 2), sources=("in3",), copartition_groups=BOTH),
            "Number of partitions [2] of repartition topic [r] doesn't match number of partitions [3] of the source "
            "topic.",
        ),
        (
            repartition(InternalTopic("a", 2), InternalTopic("b", 4), copartition_groups=TWO),
            "Following topics do not have the same number of partitions: [{a=2, b=4}]",
        ),
    ],
)
def test_partitions_that_do_not_match_are_named(subtopologies: list[Subtopology], detail: str) -> None:
    assert configured(*subtopologies, **{"in5-changelog": 5}).problem == (INCORRECT, detail)


def test_of_copartitioned_repartition_topics_the_fixed_one_counts() -> None:
    found = configured(*repartition(InternalTopic("a", 2), InternalTopic("b"), copartition_groups=TWO))
    assert [(topic.name, topic.partitions) for topic in found.to_create] == [("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("subtopology", "code", "message"),
    [
        (
            Subtopology("0"),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "No source topics found for subtopology 0",
        ),
        (
            Subtopology("0", repartition_source_topics=(InternalTopic("r"),)),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic.",
        ),
        (
            Subtopology("0", repartition_source_topics=(InternalTopic("r"),), repartition_sink_topics=("r",)),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
            "that cannot be resolved.",
        ),
        (
            Subtopology("0", ("in2",), changelog_topics=(InternalTopic("a b"),)),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Topic names a b are not valid topic names.",
        ),
        (
            Subtopology("0", source_topic_regex=("in.*",)),
            ErrorCode.INVALID_REQUEST,
            "Regular expressions for source topics are not supported yet.",
        ),
        (
            Subtopology("0", ("in2",), copartition_groups=(CopartitionGroup((4,)),)),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "A copartition group of subtopology 0 names no topic of it.",
        ),
    ],
)
def test_what_no_topics_could_make_right_is_refused(
    subtopology: Subtopology, code: ErrorCode, message: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        validate(Topology(0, (subtopology,)))
    assert (refused.value.code, refused.value.message) == (code, message)


def test_two_subtopologies_of_one_name_are_refused() -> None:
    with pytest.raises(KafkaError, match="unique"):
        validate(Topology(0, (Subtopology("0", ("in2",)), Subtopology("0", ("in3",)))))
