"""Connectors of a bank: accounts into a topic and on into a table or a lake, and rows read by JDBC."""

from __future__ import annotations

from pathlib import Path

from tests.connect.connectors.postgres import PostgresDatabase

#: The topic for captured accounts.
TOPIC = "bank.public.accounts"


def capturing(postgres: PostgresDatabase) -> dict[str, str]:
    return {
        "name": "capture",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        **postgres.capture,
        "table.include.list": "public.accounts",
        "publication.autocreate.mode": "filtered",
        "poll.interval.ms": "10",
    }


def copying(postgres: PostgresDatabase) -> dict[str, str]:
    return {
        "name": "copy",
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        **postgres.jdbc,
        "topics": TOPIC,
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
        "table.name.format": "copied",
        "offsets.table": "copied_offsets",
        "retry.backoff.ms": "50",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    }


def into_delta(directory: Path) -> dict[str, str]:
    return {
        "name": "delta",
        "connector.class": "DeltaSink",
        "topics": TOPIC,
        "table.uri": str(directory / "delta"),
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "cdc.envelope": "debezium",
    }


def reading_rows(postgres: PostgresDatabase) -> dict[str, str]:
    """Return a JDBC source for the table `events`, by increasing id."""
    return {
        "name": "rows",
        "connector.class": "JdbcSource",
        **postgres.jdbc,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "events",
        "topic.prefix": "rows-",
        "poll.interval.ms": "10",
        "batch.max.rows": "7",
    }
