"""Database to database: capture, unwrap, upsert. The copy equals the original, whatever crashes on the way."""

from __future__ import annotations

import random

import psycopg
import pytest

from ottla.connect.connectors.cdc.unwrap import ExtractNewRecordState
from ottla.connect.connectors.jdbc.sink import JdbcSinkConnector
from ottla.testing.connect import SinkHarness
from tests.connect.connectors.cdc.bank import TABLE, TOTAL, Bank, insert_all
from tests.connect.connectors.cdc.test_postgres import capture
from tests.connect.connectors.mariadb import MariaDbDatabase
from tests.connect.connectors.postgres import PostgresDatabase


@pytest.mark.parametrize("target", ["postgres", "mariadb"])
def test_the_copy_of_a_bank_is_right_in_every_committed_state(
    postgres: PostgresDatabase, request: pytest.FixtureRequest, target: str
) -> None:
    copy: PostgresDatabase | MariaDbDatabase = request.getfixturevalue(target)
    postgres.run(TABLE, insert_all())
    unwrap = ExtractNewRecordState()
    unwrap.configure({"delete.tombstone.handling.mode": "delete-to-tombstone"})
    settings = {
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
        "table.name.format": "copied",
        "offsets.table": "copied_offsets",
        "name": "copy",
    }
    bank = Bank(postgres, 5, psycopg.Error)
    randomly = random.Random(5)
    with (
        capture(postgres, table_include_list="public.accounts") as source,
        SinkHarness(JdbcSinkConnector, {**copy.jdbc, **settings}) as sink,
    ):
        sent = 0

        def forward() -> None:
            nonlocal sent
            for changed in filter(None, map(unwrap.apply, source.committed[sent:])):
                schemas = {"value_schema": changed.value_schema, "key_schema": changed.key_schema}
                sink.send(changed.topic, changed.value, key=changed.key, **schemas)
            sent = len(source.committed)

        for _ in range(5):
            bank.work(4)
            randomly.choice([source.crash, source.crash_after_commit, source.restart])()
            # Polls end with transactions, so every committed state is one that the bank had.
            source.run()
            forward()
            randomly.choice([sink.crash_before_commit, sink.restart, sink.put])()
            sink.commit()
            assert int(copy.run("SELECT sum(balance) FROM copied")[0][0]) == TOTAL
    bank.close()
    query = "SELECT id, balance, version FROM {} ORDER BY id"
    assert copy.run(query.format("copied")) == postgres.run(query.format("accounts"))
