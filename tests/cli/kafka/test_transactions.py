"""kafka-transactions: list, describe, and abort hanging transactions."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.testing import Broker
from tests.broker.transactions.wire_producer import NONE, WireProducer
from tests.cli.kafka.conftest import Tools
from tests.wire_client import WireClient


def begin(broker, transactional_id, *topics) -> Producer:
    """Return a producer with an open transaction that has written one record to each topic."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id, "log_level": 3}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for topic in topics:
        producer.produce(topic, b"value", partition=0)
    assert producer.flush(20) == 0
    return producer


def row(result) -> dict[str, str]:
    """Return the only row of a table."""
    headings, cells = (line.removesuffix("\t").split("\t") for line in result.lines)
    return {
        heading.strip(): cell.strip()
        for heading, cell in zip(headings, cells, strict=True)
        if len(heading) == len(cell)
    }


def test_transactions_are_listed_and_described(tools, kafka_broker, topic, unique):
    name = unique("x")
    producer = begin(kafka_broker, name, topic)
    listed = tools("transactions", "list", "--transactional-id-pattern", f"{name}.*")
    assert (
        row(listed).items()
        >= {
            "TransactionalId": name,
            "Coordinator": "0",
            "TransactionState": "Ongoing",
        }.items()
    )
    described = row(tools("transactions", "describe", "--transactional-id", name))
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == "60000"
    assert described["TopicPartitions"] == f"{topic}-0"
    assert int(described["TransactionDurationMs"]) >= 0
    known = row(tools("transactions", "describe-producers", "--topic", topic, "--partition", 0))
    assert known["ProducerId"] == described["ProducerId"]
    assert known["CurrentTransactionStartOffset"] == "0"
    producer.commit_transaction(20)
    assert row(tools("transactions", "describe", "--transactional-id", name))["TransactionState"] in (
        "PrepareCommit",
        "CompleteCommit",
    )


def test_only_what_runs_for_long_is_listed(tools, kafka_broker, topic, unique):
    name = unique("x")
    producer = begin(kafka_broker, name, topic)
    of_it = ("list", "--transactional-id-pattern", name)
    assert len(tools("transactions", *of_it, "--duration-filter", 0).lines) == 2
    assert len(tools("transactions", *of_it, "--duration-filter", 3_600_000).lines) == 1
    producer.abort_transaction(20)


def test_a_transactional_id_that_nobody_uses(tools):
    failed = tools("transactions", "describe", "--transactional-id", "nobody", code=1)
    assert failed.err == (
        "Failed to describe transaction state of transactional-id `nobody`: DescribeTransactions request for "
        "transactionalId `nobody` failed because the ID could not be found.\n"
    )


def test_an_open_transaction_is_terminated_by_its_id(tools, kafka_broker, topic, unique):
    name = unique("x")
    begin(kafka_broker, name, topic)
    assert tools("transactions", "forceTerminateTransaction", "--transactionalId", name).out == ""
    known = row(tools("transactions", "describe-producers", "--topic", topic, "--partition", 0))
    assert known["CurrentTransactionStartOffset"] == "None"
    assert row(tools("transactions", "describe", "--transactional-id", name))["TransactionState"] in (
        "Empty",
        "CompleteAbort",
    )


@pytest.fixture(scope="module")
def trusting() -> Iterator[Broker]:
    """A broker that does not verify with the coordinator that a partition belongs to a transaction."""
    with Broker(config={"transaction.partition.verification.enable": "false"}) as broker:
        yield broker


def test_a_hanging_transaction_is_found_and_aborted(trusting):
    trusting.create_topic("hangs")
    trusting.create_topic("ends")
    tools = Tools(trusting.bootstrap_servers)
    begin(trusting, "alive", "ends")
    with WireClient(trusting.bootstrap_servers) as client:
        stray = WireProducer(client, "stray")
        assert stray.init() is NONE
        assert stray.produce("hangs", b"value") is NONE  # the coordinator does not know about the partition
    search = ("transactions", "find-hanging", "--max-transaction-timeout", 0)
    for where in (("--topic", "hangs"), ("--broker-id", 0), ("--topic", "hangs", "--partition", 0)):
        found = row(tools(*search, *where))
        assert (found["Topic"], found["Partition"], found["StartOffset"]) == ("hangs", "0", "0")
        assert found["ProducerId"] == str(stray.producer_id)
    assert len(tools(*search, "--topic", "ends").lines) == 1
    assert len(tools("transactions", "find-hanging", "--topic", "hangs").lines) == 1, "it is not old yet"
    there = ("--topic", "hangs", "--partition", 0)
    assert tools("transactions", "abort", *there, "--start-offset", 7, code=1).err == (
        "Could not find any open transactions starting at offset 7 on partition hangs-0\n"
    )
    assert tools("transactions", "abort", *there, "--start-offset", 0).out == ""
    assert len(tools(*search, "--topic", "hangs").lines) == 1


def test_a_transaction_is_aborted_by_its_producer(tools, kafka_broker, topic, unique):
    begin(kafka_broker, unique("x"), topic)
    there = ("--topic", topic, "--partition", 0)
    known = row(tools("transactions", "describe-producers", *there))
    producer = ("--producer-id", known["ProducerId"], "--producer-epoch", known["ProducerEpoch"])
    tools("transactions", "abort", *there, *producer, "--coordinator-epoch", -1)
    known = row(tools("transactions", "describe-producers", *there))
    assert known["CurrentTransactionStartOffset"] == "None"
    older = ("--producer-id", known["ProducerId"], "--producer-epoch", -5, "--coordinator-epoch", 0)
    refused = tools("transactions", "abort", *there, *older, code=1).err
    assert refused.startswith(f"Failed to abort transaction AbortTransactionSpec(topicPartition={topic}-0, ")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("describe-producers", "--topic", "nowhere", "--partition", 0),
            "on leader: This server does not host ",
        ),
        (("describe-producers", "--topic", "nowhere", "--partition", 0, "--broker-id", 9), "on broker 9: "),
        (("find-hanging",), "requires either --topic or --broker-id"),
        (("find-hanging", "--broker-id", 0, "--partition", 1), "--partition argument requires --topic"),
        (("find-hanging", "--topic", "nowhere"), "Failed to describe 1 topics: "),
        (("abort", "--topic", "t", "--partition", 0), "must be identified either with --start-offset"),
        (("abort", "--topic", "t", "--partition", 0, "--producer-id", 1), "argument --producer-epoch"),
        (("describe",), "--transactional-id"),
        (("nonsense",), "invalid choice: 'nonsense'"),
        ((), "The action is missing."),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_one_sentence(tools, args, said):
    failed = tools("transactions", *args, code=1)
    assert said in failed.err
    assert len(failed.err.splitlines()) == 1
