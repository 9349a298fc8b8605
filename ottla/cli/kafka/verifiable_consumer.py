"""`kafka-verifiable-consumer` and `kafka-verifiable-share-consumer`"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import from_kafka
from ottla.cli.jobs.consume import polled
from ottla.cli.kafka import tool
from ottla.cli.kafka.tool import open_client
from ottla.client.admin.configs import Resource, alter_configs

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaException, Message, ShareConsumer, TopicPartition

_BATCH = 500
_POLL_SECONDS = 0.2
_REQUIRED = "The options --topic and --group-id are required."

Offsets = dict[tuple[str, int], list[int]]


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-verifiable-consumer", "Consume as a member of a group and report what happens.", """
        --bootstrap-server, --broker-list
        --topic TOPIC           the topic to consume
        --group-id GROUP_ID     the consumer group
        --group-instance-id ID  the name of a static member
        --max-messages N        number of records; -1 means no limit
        --session-timeout MS    of the group
        --enable-autocommit     commit automatically instead of after each batch
        """,
    )  # fmt: skip
    parser.add_argument("--reset-policy", default="earliest", choices=("earliest", "latest", "none"))
    parser.add_options(
        """
        --assignment-strategy ASSIGNMENT_STRATEGY  range, roundrobin, cooperative-sticky
        --verbose                                  report each record
        --command-property K=V*                    consumer property
        --command-config, --consumer.config
        --group-protocol classic|consumer          of the group
        --group-remote-assignor NAME               with the consumer protocol
        """
    )
    parser.set_defaults(
        max_messages=-1, session_timeout=30_000, assignment_strategy="range", group_protocol="classic"
    )
    args = parser.parse_args(argv)
    if not args.topic or not args.group_id:
        raise tool.UsageError(_REQUIRED)
    client, properties = open_client(args, args.command_property, "verifiable-consumer")
    if args.group_protocol.lower() == "consumer":
        # The broker knows the timeout and divides the partitions.
        protocol = {"group.protocol": "consumer", "group.remote.assignor": args.group_remote_assignor or None}
    else:
        strategy = args.assignment_strategy.rpartition(".")[2].lower().removesuffix("assignor")
        strategy = {"cooperativesticky": "cooperative-sticky"}.get(strategy, strategy)
        protocol = {"session.timeout.ms": args.session_timeout, "partition.assignment.strategy": strategy}
    optional = {**protocol, "group.instance.id": args.group_instance_id}
    consumer = client.consumer(
        {
            "group.id": args.group_id,
            "enable.auto.commit": args.enable_autocommit,
            "auto.offset.reset": "error" if args.reset_policy == "none" else args.reset_policy,
            **{name: value for name, value in optional.items() if value is not None},
            **properties,
        }
    )
    _Member(consumer, args).run()


@tool.entry_point()
def main_share(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-verifiable-share-consumer", "Consume as a member of a share group and report what happens.", """
        --bootstrap-server, --broker-list
        --topic TOPIC        the topic to consume
        --group-id GROUP_ID  the share group
        --max-messages N     number of records; -1 means no limit
        --verbose            report each record
        """,
    )  # fmt: skip
    parser.add_argument(
        "--acknowledgement-mode",
        default="auto",
        type=str.lower,
        choices=("auto", "sync", "async"),
        help="with the next poll, or at once, waiting for the answer or not",
    )
    parser.add_argument(
        "--offset-reset-strategy",
        type=str.lower,
        choices=("earliest", "latest"),
        help="where the group begins: set before anything is read",
    )
    parser.add_options("--command-config, --consumer.config")
    parser.set_defaults(max_messages=-1)
    args = parser.parse_args(argv)
    if not args.topic or not args.group_id:
        raise tool.UsageError(_REQUIRED)
    client, properties = open_client(args, (), "verifiable-share-consumer")
    consumer = client.share_consumer({**properties, "group.id": args.group_id})
    say("startup_complete")
    if args.offset_reset_strategy:
        resource = Resource("group", args.group_id)
        alter_configs(client.cluster, resource, set_={"share.auto.offset.reset": args.offset_reset_strategy})
        say("offset_reset_strategy_set", offsetResetStrategy=args.offset_reset_strategy)
    _ShareMember(consumer, args).run()


# -- events --------------------------------------------------------------------------------------------


def say(event: str, **fields: object) -> None:
    line = {"timestamp": round(time.time() * 1000), "name": event, **fields}
    print(json.dumps(line, separators=(",", ":"), ensure_ascii=False), flush=True)


def stop_on_signals(stop: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop())


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _by_partition(messages: list[Message[Any, Any]], verbose: bool) -> Offsets:
    """The offsets of a batch; each of its records is reported if `verbose`."""
    offsets: Offsets = {}
    for message in messages:
        topic, number, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        offsets.setdefault((topic, number), []).append(offset)
        if verbose:
            key, value = text(message.key()), text(message.value())
            say("record_data", key=key, value=value, topic=topic, partition=number, offset=offset)
    return offsets


# -- members -------------------------------------------------------------------------------------------


class _Member:
    def __init__(self, consumer: Consumer, args: argparse.Namespace) -> None:
        self._consumer = consumer
        self._args = args
        self._stopped = False
        self._taken = 0

    def run(self) -> None:
        limit = self._args.max_messages
        stop_on_signals(self._stop)
        say("startup_complete")
        self._consumer.subscribe([self._args.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        while not self._stopped and (limit < 0 or self._taken < limit):
            most = _BATCH if limit < 0 else min(_BATCH, limit - self._taken)
            first = self._consumer.poll(_POLL_SECONDS)
            if first is None:
                continue
            messages = [first, *(self._consumer.consume(most - 1, 0) if most > 1 else [])]
            for message in messages:
                error = message.error()
                if error is not None:
                    raise from_kafka(error, f"Topic '{self._args.topic}'", self._args.group_id)
            self._report(messages)
        self._consumer.close()
        say("shutdown_complete")

    def _stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            say("shutdown_requested")

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say("partitions_assigned", partitions=_names(partitions))

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say("partitions_revoked", partitions=_names(partitions))

    def _report(self, messages: list[Message[Any, Any]]) -> None:
        offsets = _by_partition(messages, self._args.verbose)
        self._taken += len(messages)
        partitions = [
            {"topic": topic, "partition": number, "count": len(seen), "minOffset": seen[0], "maxOffset": seen[-1]}
            for (topic, number), seen in offsets.items()
        ]  # fmt: skip
        say("records_consumed", count=len(messages), partitions=partitions)
        if not self._args.enable_autocommit:
            self._commit([(topic, number, seen[-1] + 1) for (topic, number), seen in offsets.items()])

    def _commit(self, positions: list[tuple[str, int, int]]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        outcome: dict[str, object] = {"success": True}
        try:
            offsets = [TopicPartition(topic, number, offset) for topic, number, offset in positions]
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            outcome = {"success": False, "error": failure.args[0].str()}
        committed = [
            {"topic": topic, "partition": number, "offset": offset} for topic, number, offset in positions
        ]
        say("offsets_committed", offsets=committed, **outcome)


class _ShareMember:
    def __init__(self, consumer: ShareConsumer, args: argparse.Namespace) -> None:
        self._consumer = consumer
        self._args = args
        self._stopped = False
        self._acknowledged = 0

    def run(self) -> None:
        limit, mode = self._args.max_messages, self._args.acknowledgement_mode
        stop_on_signals(self._stop)
        self._consumer.subscribe([self._args.topic])
        self._consumer.set_acknowledgement_commit_callback(self._on_acknowledged)
        try:
            while not self._stopped and (limit < 0 or self._acknowledged < limit):
                messages = polled(self._consumer, self._args.topic, _POLL_SECONDS)
                if not messages:
                    continue
                offsets = _by_partition(messages, self._args.verbose)
                say("records_consumed", count=len(messages), partitions=_counted(offsets))
                if mode == "async":
                    self._consumer.commit_async()
                elif mode == "sync":
                    self._consumer.commit_sync()
        finally:
            self._consumer.close()
            say("shutdown_complete")

    def _stop(self) -> None:
        self._stopped = True

    def _on_acknowledged(
        self, offsets: dict[TopicPartition, set[int]], failure: KafkaException | None
    ) -> None:
        count = sum(map(len, offsets.values()))
        error = {} if failure is None else {"error": failure.args[0].str()}
        partitions = _counted({(each.topic, each.partition): list(seen) for each, seen in offsets.items()})
        say("offsets_acknowledged", count=count, partitions=partitions, **error, success=failure is None)
        if failure is None:
            self._acknowledged += count


def _names(partitions: list[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


def _counted(offsets: Offsets) -> list[dict[str, object]]:
    return [
        {"topic": topic, "partition": number, "count": len(seen), "offsets": sorted(seen)}
        for (topic, number), seen in offsets.items()
    ]
