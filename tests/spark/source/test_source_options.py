from __future__ import annotations

import pytest

from ottla.client.cluster import TopicPartition
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from ottla.spark.options import OptionError
from ottla.spark.source.source_options import SOURCE_OPTIONS, SourceOptions, parse_options

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def parse(streaming: bool = False, **more: str | None) -> SourceOptions:
    options = {**GIVEN, **{name.replace("__", "."): value for name, value in more.items()}}
    return parse_options({k: v for k, v in options.items() if v is not None}, streaming=streaming)


def test_a_batch_reads_everything_and_a_stream_what_is_new() -> None:
    assert parse().starting.everywhere == EARLIEST
    assert parse().ending.everywhere == LATEST
    assert parse(streaming=True).starting.everywhere == LATEST


def test_names_are_taken_in_any_case() -> None:
    assert parse(INCLUDEHEADERS="TRUE").include_headers


@pytest.mark.parametrize("name", SOURCE_OPTIONS)
def test_every_option_of_the_connector_is_known(name: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_options({**GIVEN, name: "nonsense!", "unknown": "1"})
    assert "There is no option 'unknown'" in raised.value.message


def test_topics_patterns_and_partitions() -> None:
    assert parse(subscribe=" a, b ").subscription.topics == ("a", "b")
    assert parse(subscribe=None, subscribePattern="a.*").subscription.pattern == "a.*"
    assigned = parse(subscribe=None, assign='{"a": [0, 2]}').subscription.assigned
    assert assigned == (TopicPartition("a", 0), TopicPartition("a", 2))


def test_a_timestamp_goes_before_timestamps_and_those_before_offsets() -> None:
    everything = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders": {"0": 5}}',
        "startingTimestamp": "7",
    }
    assert parse(**everything).starting.timestamp == 7
    del everything["startingTimestamp"]
    assert parse(**everything).starting.timestamps == {TopicPartition("orders", 0): 5}


def test_limits_times_and_groups() -> None:
    options = parse(
        maxTriggerDelay="2m",
        kafka__isolation__level="read_committed",
        kafka__group__id="lag",
        fetchOffset__retryIntervalMs="250",
        fetchOffset__numRetries="4",
    )
    assert options.max_trigger_delay == 120
    assert options.isolation_level == READ_COMMITTED
    assert options.commit_group == "lag"
    assert (options.settings.retry_backoff, options.settings.api_timeout) == (0.25, 1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kafka__bootstrap__servers": None}, "Option 'kafka.bootstrap.servers' is missing"),
        ({"subscribe": None}, "Exactly one of assign, subscribe, subscribePattern must say what to read."),
        ({"subscribePattern": "a"}, "must say what to read, not subscribe and subscribePattern."),
        ({"subscribe": " , "}, "subscribe must name at least one topic"),
        ({"subscribe": None, "subscribePattern": "("}, "is not a regular expression"),
        ({"subscribe": None, "assign": '{"a": 1}'}, "assign must be JSON such as"),
        ({"subscribr": "a"}, "There is no option 'subscribr'. Did you mean 'subscribe'?"),
        ({"kafka__boostrap__servers": "a"}, "Did you mean 'kafka.bootstrap.servers'?"),
        ({"path": "orders"}, "load() takes no path"),
        ({"kafka__auto__offset__reset": "latest"}, "use startingOffsets"),
        ({"kafka__key__deserializer": "x"}, "use keyFormat"),
        (
            {"kafka__security__protocol": "SASL_PLAINTEXT", "kafka__sasl__mechanism": "DIGEST-MD5"},
            "kafka.sasl.mechanism must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI, not 'DIGEST-MD5'",
        ),
        (
            {"kafka__security__protocol": "SASL_SSL", "kafka__sasl__mechanism": "PLAIN"},
            "The login is missing. Set kafka.sasl.username and kafka.sasl.password",
        ),
        ({"kafka__sasl__login__class": "x"}, "it is not one of those that are understood of SASL"),
        (
            {"kafka__security__protocol": "SASL_SSL", "kafka__sasl__mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs a token",
        ),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch query"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets cannot be latest in a batch query"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "newest"}, "startingOffsets must be JSON such as"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "and orders-0 has -3"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp must be a number of milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest, not 'guess'"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false, not 'maybe'"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number above 0"),
        ({"maxTriggerDelay": "long"}, "maxTriggerDelay must be a time such as"),
        ({"kafka__isolation__level": "none"}, "kafka.isolation.level must be read_committed or"),
        (
            {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
            "minOffsetsPerTrigger (10) is larger than maxOffsetsPerTrigger (5)",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**options)
    assert sentence in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} cannot be used in a streaming query"):
        parse(streaming=True, **{name: "1"})
