"""`kafka-transactions`"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ottla.cli.client import Client
from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.cli.kafka import tool
from ottla.client.admin.offsets import Partition
from ottla.client.admin.transactions import (
    abort_transaction,
    describe_producers,
    describe_transaction,
    find_hanging,
    force_terminate,
    list_transactions,
)

_MINUTE_MS = 60_000


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-transactions", "Show transactions and producers, and abort hanging transactions.", """
        --bootstrap-server, --broker-list
        --command-config
        """,
    )  # fmt: skip
    parser.add_command("list", "list transactions", """
        --duration-filter MS              only those that run for longer than this
        --transactional-id-pattern REGEX  only ids that match
        """).set_defaults(duration_filter=-1)  # fmt: skip
    parser.add_command("describe", "describe the state of a transactional id", "--transactional-id ID!")
    parser.add_command("describe-producers", "describe the producers of a partition", """
        --broker-id N:int  as this broker knows them, not the leader
        --topic TOPIC!
        --partition N:int!
        """)  # fmt: skip
    parser.add_command("abort", "abort a hanging transaction", """
        --topic TOPIC!
        --partition N:int!
        --start-offset N  where the transaction begins
        --producer-id N   whose it is, for brokers before 3.0
        --producer-epoch N:int
        --coordinator-epoch N:int
        """)  # fmt: skip
    parser.add_command("find-hanging", "find hanging transactions", """
        --broker-id N:int  in the partitions of this broker
        --max-transaction-timeout MINUTES  only those that are older
        --topic TOPIC  in the partitions of this topic
        --partition N:int
        """).set_defaults(max_transaction_timeout=15)  # fmt: skip
    parser.add_command(
        "forceTerminateTransaction", "abort the open transaction of an id", "--transactionalId ID!"
    )
    args = parser.command(argv)
    _check(args)
    _COMMANDS[args.command](tool.connect(args), args)


def _check(args: argparse.Namespace) -> None:
    if args.command == "find-hanging":
        if args.topic is None and args.broker_id is None:
            raise tool.UsageError(
                "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
            )
        if args.partition is not None and args.topic is None:
            raise tool.UsageError("The --partition argument requires --topic to be provided")
    if args.command == "abort" and args.start_offset is None:
        if args.producer_id is None:
            raise tool.UsageError(
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or "
                "above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
            )
        for option in ("producer_epoch", "coordinator_epoch"):
            if getattr(args, option) is None:
                raise tool.UsageError(f"Missing required argument --{option.replace('_', '-')}")


@contextmanager
def _failing_to(action: str) -> Iterator[None]:
    """Report failures with Kafka's sentence and the reason."""
    try:
        yield
    except BrokerUnreachable:
        raise
    except JobError as error:
        raise JobError(f"Failed to {action}: {error.message}", error.code) from None


def _list(client: Client, args: argparse.Namespace) -> None:
    with _failing_to("list transactions"):
        found = list_transactions(
            client.cluster,
            duration_ms=args.duration_filter,
            pattern=args.transactional_id_pattern,
        )
    _table(
        ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
        [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found],
    )


def _describe(client: Client, args: argparse.Namespace) -> None:
    name = args.transactional_id
    with _failing_to(f"describe transaction state of transactional-id `{name}`"):
        found = describe_transaction(client.cluster, name)
        if found is None:
            raise JobError(
                f"DescribeTransactions request for transactionalId `{name}` failed because the ID could not be found."
            )
    now = round(time.time() * 1000)
    _table(
        ("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState",
         "TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
        [(found.coordinator, name, found.producer_id, found.producer_epoch, found.state, found.timeout_ms,
          found.start_ms, None if found.start_ms is None else now - found.start_ms,
          ",".join(f"{topic}-{number}" for topic, number in found.partitions))],
    )  # fmt: skip


def _describe_producers(client: Client, args: argparse.Namespace) -> None:
    partition = (args.topic, args.partition)
    where = "leader" if args.broker_id is None else f"broker {args.broker_id}"
    with _failing_to(f"describe producers for partition {args.topic}-{args.partition} on {where}"):
        producers = describe_producers(client.cluster, [partition], args.broker_id)[partition]
    _table(
        ("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
         "CurrentTransactionStartOffset"),
        [(each.producer_id, each.producer_epoch, each.coordinator_epoch, each.last_sequence, each.last_timestamp,
          each.transaction_start) for each in producers],
    )  # fmt: skip


def _abort(client: Client, args: argparse.Namespace) -> None:
    partition = (args.topic, args.partition)
    name = f"{args.topic}-{args.partition}"
    producer, epoch, coordinator = args.producer_id, args.producer_epoch, args.coordinator_epoch
    if args.start_offset is not None:
        with _failing_to(f"validate producer state for partition {name}"):
            producers = describe_producers(client.cluster, [partition])[partition]
        open_there = [each for each in producers if each.transaction_start == args.start_offset]
        if not open_there:
            raise JobError(
                f"Could not find any open transactions starting at offset {args.start_offset} on partition {name}"
            )
        producer, epoch = open_there[0].producer_id, open_there[0].producer_epoch
        coordinator = open_there[0].coordinator_epoch
    # A transaction without any marker before it has no epoch of a coordinator: 0 is as old as any.
    coordinator = max(coordinator, 0)
    with _failing_to(
        f"abort transaction AbortTransactionSpec(topicPartition={name}, producerId={producer}, "
        f"producerEpoch={epoch}, coordinatorEpoch={coordinator})"
    ):
        abort_transaction(client.cluster, partition, producer, epoch, coordinator)


def _find_hanging(client: Client, args: argparse.Namespace) -> None:
    found = find_hanging(
        client.cluster,
        _partitions(client, args),
        broker=args.broker_id,
        longer_than_ms=args.max_transaction_timeout * _MINUTE_MS,
    )
    now = round(time.time() * 1000)
    _table(
        ("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
         "Duration(min)"),
        [(topic, number, each.producer_id, each.producer_epoch, each.coordinator_epoch, each.transaction_start,
          each.last_timestamp, (now - each.last_timestamp) // _MINUTE_MS) for (topic, number), each in found],
    )  # fmt: skip


def _partitions(client: Client, args: argparse.Namespace) -> list[Partition]:
    """Return the partitions to search."""
    if args.partition is not None:
        return [(args.topic, args.partition)]
    topics = client.cluster.metadata(None if args.topic is None else [args.topic]).topics
    if args.topic is not None and any(topic.error_code for topic in topics):
        raise JobError("Failed to describe 1 topics: This server does not host this topic-partition.")
    return [
        (topic.name or "", partition.partition_index)
        for topic in topics
        for partition in topic.partitions
        if args.broker_id is None or args.broker_id in partition.replica_nodes
    ]


def _force_terminate(client: Client, args: argparse.Namespace) -> None:
    with _failing_to(f"force terminate transactionalId `{args.transactionalId}`"):
        force_terminate(client.cluster, args.transactionalId)


_COMMANDS: dict[str, Callable[[Client, argparse.Namespace], None]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [list(headings), *(["None" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    for row in cells:
        line = "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
        print(line)
