"""`kafka-verifiable-share-consumer`"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.cli.kafka import tool
from ottla.cli.kafka.client_properties import open_client
from ottla.cli.kafka.verifiable.events import say

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Message, ShareConsumer, TopicPartition

_MODES = ("auto", "sync", "async")
_POLL_SECONDS = 0.2


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "kafka-verifiable-share-consumer", "Consume as a member of a share group and tell what happens."
    )
    parser.add_servers()
    parser.add_argument("--topic", help="the topic to consume")
    parser.add_argument("--group-id", help="the share group")
    parser.add_argument("--max-messages", type=int, default=-1, metavar="N", help="how many; -1 for no end")
    parser.add_flag("--verbose", help="tell of each record")
    parser.add_argument(
        "--acknowledgement-mode",
        default="auto",
        type=str.lower,
        choices=_MODES,
        help="with the next poll, or at once, waiting for the answer or not",
    )
    parser.add_argument(
        "--offset-reset-strategy",
        type=str.lower,
        choices=("earliest", "latest"),
        help="where the group begins: set before anything is read",
    )
    parser.add_command_config("--consumer.config")
    args = parser.parse_args(argv)
    if not args.topic or not args.group_id:
        raise tool.UsageError("The options --topic and --group-id are required.")
    client, properties = open_client(args, (), "verifiable-share-consumer")
    consumer = client.share_consumer({**properties, "group.id": args.group_id})
    say("startup_complete")
    if args.offset_reset_strategy:
        from ottla.cli.jobs.configs import Resource, alter_configs

        resource = Resource("group", args.group_id)
        alter_configs(client, resource, set_={"share.auto.offset.reset": args.offset_reset_strategy})
        say("offset_reset_strategy_set", offsetResetStrategy=args.offset_reset_strategy)
    _Run(consumer, args).run()
    return 0


class _Run:
    def __init__(self, consumer: ShareConsumer, args: argparse.Namespace) -> None:
        self._consumer = consumer
        self._args = args
        self._stopped = False
        self._acknowledged = 0

    def run(self) -> None:
        from ottla.cli.jobs.share_consume import polled
        from ottla.cli.kafka.verifiable.events import stop_on_signals

        limit, mode = self._args.max_messages, self._args.acknowledgement_mode
        stop_on_signals(self._stop)
        self._consumer.subscribe([self._args.topic])
        self._consumer.set_acknowledgement_commit_callback(self._on_acknowledged)
        try:
            while not self._stopped and (limit < 0 or self._acknowledged < limit):
                messages = polled(self._consumer, self._args.topic, _POLL_SECONDS)
                if not messages:
                    continue
                self._tell(messages)
                if mode == "async":
                    self._consumer.commit_async()
                elif mode == "sync":
                    self._consumer.commit_sync()
        finally:
            self._consumer.close()
            say("shutdown_complete")

    def _stop(self) -> None:
        self._stopped = True

    def _tell(self, messages: list[Message[Any, Any]]) -> None:
        offsets: dict[tuple[str, int], list[int]] = {}
        for message in messages:
            topic, number, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            offsets.setdefault((topic, number), []).append(offset)
            if self._args.verbose:
                say(
                    "record_data",
                    key=_text(message.key()),
                    value=_text(message.value()),
                    topic=topic,
                    partition=number,
                    offset=offset,
                )
        say("records_consumed", count=len(messages), partitions=_partitions(offsets))

    def _on_acknowledged(
        self, offsets: dict[TopicPartition, set[int]], failure: KafkaException | None
    ) -> None:
        count = sum(map(len, offsets.values()))
        error = {} if failure is None else {"error": failure.args[0].str()}
        by_partition = {(each.topic, each.partition): list(seen) for each, seen in offsets.items()}
        say(
            "offsets_acknowledged",
            count=count,
            partitions=_partitions(by_partition),
            **error,
            success=failure is None,
        )
        if failure is None:
            self._acknowledged += count


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _partitions(offsets: dict[tuple[str, int], list[int]]) -> list[dict[str, object]]:
    return [
        {"topic": topic, "partition": number, "count": len(seen), "offsets": sorted(seen)}
        for (topic, number), seen in offsets.items()
    ]


if __name__ == "__main__":
    main()
