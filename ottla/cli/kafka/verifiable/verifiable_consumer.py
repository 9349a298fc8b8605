"""`kafka-verifiable-consumer`"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import from_kafka
from ottla.cli.kafka import tool
from ottla.cli.kafka.client_properties import open_client
from ottla.cli.kafka.verifiable.events import say, stop_on_signals

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

_BATCH = 500


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("kafka-verifiable-consumer", "Consume as a member of a group and tell what happens.")
    parser.add_servers()
    parser.add_argument("--topic", help="the topic to consume")
    parser.add_argument("--group-id", help="the consumer group")
    parser.add_argument("--group-instance-id", metavar="ID", help="the name of a static member")
    parser.add_argument("--max-messages", type=int, default=-1, metavar="N", help="how many; -1 for no end")
    parser.add_argument("--session-timeout", type=int, default=30_000, metavar="MS", help="of the group")
    parser.add_flag("--enable-autocommit", help="let the client commit instead of after each batch")
    parser.add_argument("--reset-policy", default="earliest", choices=("earliest", "latest", "none"))
    parser.add_argument(
        "--assignment-strategy", default="range", help="range, roundrobin, cooperative-sticky"
    )
    parser.add_flag("--verbose", help="tell of each record")
    parser.add_many("--command-property", metavar="K=V", help="a property of the consumer")
    parser.add_command_config("--consumer.config")
    parser.add_argument(
        "--group-protocol", default="classic", metavar="classic|consumer", help="of the group"
    )
    parser.add_argument("--group-remote-assignor", metavar="NAME", help="with the consumer protocol")
    args = parser.parse_args(argv)
    if not args.topic or not args.group_id:
        raise tool.UsageError("The options --topic and --group-id are required.")
    client, properties = open_client(args, args.command_property, "verifiable-consumer")
    newer = args.group_protocol.lower() == "consumer"
    strategy = args.assignment_strategy.rpartition(".")[2].lower().removesuffix("assignor")
    static = {} if args.group_instance_id is None else {"group.instance.id": args.group_instance_id}
    consumer = client.consumer(
        {
            "group.id": args.group_id,
            "enable.auto.commit": args.enable_autocommit,
            "auto.offset.reset": "error" if args.reset_policy == "none" else args.reset_policy,
            **(_newer(args) if newer else _classic(args, strategy)),
            **static,
            **properties,
        }
    )
    _Run(consumer, args).run()
    return 0


def _classic(args: argparse.Namespace, strategy: str) -> dict[str, Any]:
    strategy = {"cooperativesticky": "cooperative-sticky"}.get(strategy, strategy)
    return {"session.timeout.ms": args.session_timeout, "partition.assignment.strategy": strategy}


def _newer(args: argparse.Namespace) -> dict[str, Any]:
    """The broker knows the timeout and divides the partitions."""
    assignor = {} if not args.group_remote_assignor else {"group.remote.assignor": args.group_remote_assignor}
    return {"group.protocol": "consumer", **assignor}


class _Run:
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
            first = self._consumer.poll(0.2)
            if first is None:
                continue
            messages = [first, *(self._consumer.consume(most - 1, 0) if most > 1 else [])]
            for message in messages:
                error = message.error()
                if error is not None:
                    raise from_kafka(error, f"Topic '{self._args.topic}'")
            self._tell(messages)
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

    def _tell(self, messages: list[Message[Any, Any]]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        offsets: dict[tuple[str, int], list[int]] = {}
        for message in messages:
            topic, number, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            offsets.setdefault((topic, number), []).append(offset)
            if self._args.verbose:
                key, value = message.key(), message.value()
                say(
                    "record_data",
                    key=None if key is None else key.decode(errors="replace"),
                    value=None if value is None else value.decode(errors="replace"),
                    topic=topic,
                    partition=number,
                    offset=offset,
                )
        self._taken += len(messages)
        say(
            "records_consumed",
            count=len(messages),
            partitions=[
                {
                    "topic": topic,
                    "partition": number,
                    "count": len(seen),
                    "minOffset": seen[0],
                    "maxOffset": seen[-1],
                }
                for (topic, number), seen in offsets.items()
            ],
        )
        if self._args.enable_autocommit:
            return
        following = {key: seen[-1] + 1 for key, seen in offsets.items()}
        outcome: dict[str, object] = {"success": True}
        try:
            self._consumer.commit(
                offsets=[
                    TopicPartition(topic, number, offset) for (topic, number), offset in following.items()
                ],
                asynchronous=False,
            )
        except KafkaException as failure:
            outcome = {"success": False, "error": failure.args[0].str()}
        say(
            "offsets_committed",
            offsets=[
                {"topic": topic, "partition": number, "offset": offset}
                for (topic, number), offset in following.items()
            ],
            **outcome,
        )


def _names(partitions: list[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


if __name__ == "__main__":
    main()
