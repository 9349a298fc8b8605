"""A bank whose accounts are captured: a model that detects lost, repeated and reordered changes.

Each account has a version that grows by one with each change, so the versions of an account's events are consecutive. A
transfer changes two accounts in one transaction, so the sum is constant between transactions.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from ottla.connect.data.record import SourceRecord
from ottla.connect.errors import ConnectError, RetriableError
from ottla.testing.connect import SourceHarness

TABLE = "CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL, version INT NOT NULL)"
ACCOUNTS = 12
TOTAL = ACCOUNTS * 100


def insert_all() -> str:
    return "INSERT INTO accounts VALUES " + ", ".join(f"({number}, 100, 0)" for number in range(ACCOUNTS))


class Bank:
    """Runs one transaction at a time on the database, and reconnects when the connection is lost."""

    def __init__(self, database: Any, seed: int, error: type[Exception]) -> None:
        self._database = database
        self._random = random.Random(seed)
        self._error = error
        self._connection: Any = None
        self._opened = ACCOUNTS

    def transfer(self) -> None:
        here, there = self._random.sample(range(ACCOUNTS), 2)
        amount = self._random.randrange(1, 50)
        change = "UPDATE accounts SET balance = balance + ({}), version = version + 1 WHERE id = {}"
        self._transaction(change.format(-amount, here), change.format(amount, there))

    def open_and_close(self) -> None:
        """Open an account with balance zero and close it again."""
        number, self._opened = self._opened, self._opened + 1
        self._transaction(f"INSERT INTO accounts VALUES ({number}, 0, 0)")
        if self._random.random() < 0.5:
            self._transaction(f"DELETE FROM accounts WHERE id = {number}")

    def work(self, transactions: int) -> None:
        for _ in range(transactions):
            self._random.choice([self.transfer, self.transfer, self.transfer, self.open_and_close])()

    def _transaction(self, *statements: str) -> None:
        """Run a transaction, retrying while the server is down, like a clerk at the counter."""
        for attempt in range(2000):
            try:
                if self._connection is None:
                    self._connection = self._database.connect(autocommit=False)
                with self._connection.cursor() as cursor:
                    for statement in statements:
                        cursor.execute(statement)
                self._connection.commit()
                return
            except self._error as error:
                self.close()
                if type(error).__name__ in ("UniqueViolation", "IntegrityError"):
                    # The commit succeeded before the connection was lost.
                    return
                if attempt == 1999:
                    raise
                time.sleep(0.02)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(self._error):
                connection.close()


def replay(
    records: Sequence[SourceRecord], *, of_whole_transactions: Callable[[SourceRecord], Any]
) -> dict[int, tuple[int, int]]:
    """Return balance and version by account from the events. Fails at the first gap."""
    accounts: dict[int, tuple[int, int]] = {}
    for number, record in enumerate(records):
        if record.value is None:
            assert record.key.get("id") not in accounts, "a tombstone before its delete"
            continue
        op, after = record.value.get("op"), record.value.get("after")
        key = record.key.get("id")
        if op == "d":
            assert key in accounts, f"record {number} deletes account {key}, which is not there"
            del accounts[key]
            continue
        balance, version = after.get("balance"), after.get("version")
        if op in ("r", "c"):
            assert key not in accounts, f"record {number} brings account {key} again"
        else:
            assert version == accounts[key][1] + 1, f"record {number}: {version} after {accounts[key]}"
        accounts[key] = (balance, version)
        following = records[number + 1] if number + 1 < len(records) else None
        ends = following is None or of_whole_transactions(following) != of_whole_transactions(record)
        # While a later snapshot has shown newer rows, the stream has not caught up with them.
        if op == "u" and ends and "snapshot_later" not in record.source_offset:
            assert sum(balance for balance, _ in accounts.values()) == TOTAL, f"after record {number}"
    return accounts


def run_with_faults(
    source: SourceHarness, bank: Bank, *, seed: int, steps: int, faults: Sequence[Callable[[], None]]
) -> None:
    """Run the bank while the connector polls, commits and crashes at random."""
    randomly = random.Random(seed)
    for _ in range(steps):
        bank.work(randomly.randrange(3))
        action = randomly.choice(
            [
                source.poll,
                source.poll,
                source.commit,
                source.commit,
                source.crash,
                source.crash_after_commit,
                source.restart,
                *faults,
            ]
        )
        try:
            action()
        except RetriableError:
            # Like the runtime after errors.retry.timeout: the task restarts at the committed offset.
            source.crash()


def run_bank(
    database: Any,
    source: SourceHarness,
    bank: Bank,
    *,
    seed: int,
    steps: int,
    faults: Sequence[Callable[[], None]],
    transaction: str,
) -> None:
    """Take the snapshot a few rows at a time while the bank works, so that crashes hit it in the middle.

    `transaction` is the field of an event's source that identifies its transaction.
    """
    with source:
        run_with_faults(source, bank, seed=seed, steps=steps, faults=faults)
        with contextlib.suppress(ConnectError):
            source.run()
        source.crash()
        source.run()
        seen = replay(
            source.committed,
            of_whole_transactions=lambda record: record.value and record.value.get("source").get(transaction),
        )
        bank.close()
        assert seen == {row[0]: row[1:] for row in database.run("SELECT id, balance, version FROM accounts")}
        reads = [each for each in source.committed if each.value is not None and each.value.get("op") == "r"]
        assert len({record.key.get("id") for record in reads}) == len(reads) >= ACCOUNTS
