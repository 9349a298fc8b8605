"""Tools of Kafka that Ottla does not have yet: each says so by its name instead of not being found."""

from __future__ import annotations

from typing import NoReturn

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool


def acls() -> NoReturn:
    _comes_later("kafka-acls", "access control lists are not kept yet")


def delegation_tokens() -> NoReturn:
    _comes_later("kafka-delegation-tokens", "brokers do not give out delegation tokens yet")


def streams_groups() -> NoReturn:
    _comes_later(
        "kafka-streams-groups",
        "applications of Kafka Streams use the classic protocol, which kafka-consumer-groups shows",
    )


def connect_standalone() -> NoReturn:
    _comes_later("connect-standalone", "pipelines of Ottla run on Spark, see `ottla.spark`")


def connect_distributed() -> NoReturn:
    _comes_later("connect-distributed", "pipelines of Ottla run on Spark, see `ottla.spark`")


def connect_mirror_maker() -> NoReturn:
    _comes_later("connect-mirror-maker", "topics are not copied between clusters yet")


def connect_plugin_path() -> NoReturn:
    _comes_later("connect-plugin-path", "pipelines of Ottla run on Spark, see `ottla.spark`")


def mirror_maker() -> NoReturn:
    _comes_later("kafka-mirror-maker", "topics are not copied between clusters yet")


def _comes_later(name: str, meanwhile: str) -> NoReturn:
    def run(_argv: list[str]) -> int | None:
        raise JobError(f"{name} is not part of Ottla yet and comes later: {meanwhile}.")

    tool.main(run)
