"""Writes numbers to a topic and to PostgreSQL, both or neither, and dies at a random moment.

    python -m tests.broker.transactions.two_phase_worker HOST:PORT POSTGRES-URL SEED

Each number is written in a transaction of Kafka with two-phase commit and in a prepared transaction of PostgreSQL.
The table `outcome` has the producer id and epoch of the last Kafka transaction that was decided: the commit in
PostgreSQL is the decision.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from typing import Any

import psycopg

from ottla.protocol.errors import ErrorCode
from tests.broker.transactions.wire_producer import WireProducer
from tests.wire_client import WireClient

NAME = "two-phase"


def until_done(call: Any) -> None:
    deadline = time.monotonic() + 30
    while (code := call()) is not ErrorCode.NONE:
        assert time.monotonic() < deadline, code.name
        assert code.retriable or code is ErrorCode.CONCURRENT_TRANSACTIONS, code.name
        time.sleep(0.02)


def recover(producer: WireProducer, database: psycopg.Connection[Any]) -> int:
    """End what a dead worker has left on both sides. Return the number of rows."""
    for (prepared,) in database.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
        database.execute(f"ROLLBACK PREPARED '{prepared}'")  # not decided
    until_done(lambda: producer.init(6, enable2_pc=True, keep_prepared_txn=True))
    if producer.ongoing != (-1, -1):
        decided = database.execute("SELECT producer_id, epoch FROM outcome").fetchone()
        until_done(lambda: producer.end(commit=decided == producer.ongoing))
    row = database.execute("SELECT count(*) FROM numbers").fetchone()
    assert row is not None
    return int(row[0])


def main(servers: str, url: str, seed: int) -> None:
    chance = random.Random(seed)
    steps = chance.randrange(3, 60)

    def maybe_die() -> None:
        nonlocal steps
        steps -= 1
        if steps <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with WireClient(servers) as client, psycopg.connect(url, autocommit=True) as database:
        producer = WireProducer(client, NAME, v2=True)
        number = recover(producer, database)
        while True:
            maybe_die()
            until_done(lambda number=number: producer.produce("numbers", str(number).encode()))  # type: ignore[misc]
            maybe_die()
            database.execute("BEGIN")
            database.execute("INSERT INTO numbers VALUES (%s)", (number,))
            database.execute(
                "UPDATE outcome SET producer_id = %s, epoch = %s", (producer.producer_id, producer.epoch)
            )
            database.execute(f"PREPARE TRANSACTION '{number}'")
            maybe_die()
            database.execute(f"COMMIT PREPARED '{number}'")
            maybe_die()
            until_done(lambda: producer.end(commit=True))
            number += 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
