"""A tests.history writer that moves money between accounts. Each transfer is one transaction.

    python -m tests.cluster.history.bank HOST:PORT NAME TRANSACTIONAL_ID TIMEOUT_MS

Each writer owns one account per partition. A record is one side of a transfer and states the balance after it. After
starting a new producer, the writer first reads the balances left by earlier transactions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.history.recorder import PARTITIONS, TOPIC
from tests.history.writer import PATIENCE, Writer, main

OPENING = 100


@dataclass
class TransferWriter(Writer):
    ends: dict[str, int] = field(default_factory=lambda: {"commit": 75, "abort": 20, "leave": 5})
    balances: dict[int, int] = field(default_factory=dict)

    def _new_producer(self) -> Producer:
        producer = super()._new_producer()
        self.balances = self._read()
        return producer

    def _read(self) -> dict[int, int]:
        """Return the account balances. All transactions of this id have ended; those of other ids will end."""
        asked = {TopicPartition(TOPIC, each): OffsetSpec.latest() for each in range(PARTITIONS)}
        quiet = {"bootstrap.servers": self.bootstrap_servers, "log_level": 0}
        admin = AdminClient(quiet)
        found = admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=PATIENCE
        )
        missing = {place.partition: future.result().offset for place, future in found.items()}
        reader = Consumer(
            {**quiet, "group.id": "balances", "enable.partition.eof": True, "enable.auto.commit": False}
        )
        reader.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in missing])
        balances = dict.fromkeys(range(PARTITIONS), OPENING)
        deadline = time.monotonic() + 2 * PATIENCE
        while missing and time.monotonic() < deadline:
            for message in reader.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    side = json.loads(message.value())
                    if side["writer"] == self.transactional_id:
                        balances[message.partition()] = side["balance"]
                elif error.code() == KafkaError._PARTITION_EOF and message.offset() >= missing.get(
                    message.partition(), 0
                ):
                    missing.pop(message.partition(), None)
        reader.close()
        if missing:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # starts over with another producer
        return balances

    def compose(self, name: str) -> list[tuple[int, str]]:
        giver, taker = self.rng.sample(range(PARTITIONS), 2)
        amount = self.rng.randint(1, 20)
        return [
            (account, self._side(name, account, change))
            for account, change in ((giver, -amount), (taker, amount))
        ]

    def _side(self, name: str, account: int, change: int) -> str:
        side = {"transfer": name, "writer": self.transactional_id, "change": change}
        return json.dumps({**side, "balance": self.balances[account] + change})

    def committed(self, places: list[tuple[int, str]]) -> None:
        for account, side in places:
            self.balances[account] = json.loads(side)["balance"]


def audit(records: Iterable[tuple[int, str]]) -> tuple[list[str], int]:
    """Return the errors in the books, read in this order of (partition, value), and the number of balance checks.

    Each account continues from its previous balance, and each transfer has two sides. Whenever no transfer is half
    read, the total is constant.
    """
    wrong: list[str] = []
    balances: dict[tuple[str, int], int] = {}
    half: dict[str, int] = {}
    total = looked = 0
    for partition, value in records:
        side = json.loads(value)
        account = (side["writer"], partition)
        before = balances.get(account, OPENING)
        if before + side["change"] != side["balance"]:
            wrong.append(f"{account} held {before} before {value}")
        balances[account] = side["balance"]
        total += side["balance"] - before
        if side["transfer"] not in half:
            half[side["transfer"]] = side["change"]
        elif half.pop(side["transfer"]) + side["change"]:
            wrong.append(f"the sides do not agree: {value}")
        if not half:
            looked += 1
            if total:
                wrong.append(f"the money has changed by {total} with {value}")
    wrong += [f"only one side is there of {transfer}" for transfer in half]
    return wrong, looked


if __name__ == "__main__":
    main(TransferWriter)
