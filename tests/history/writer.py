"""A transactional producer in its own process, which reports its actions and their outcomes as JSON lines.

    python -m tests.history.writer HOST:PORT NAME TRANSACTIONAL_ID TIMEOUT_MS

It commits most transactions, aborts some, exceeds the timeout of some, and abandons some. After being fenced it starts
over with another producer. It ends with stdin. It is a process because closing a client may hang.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.history.recorder import PARTITIONS, TOPIC

PATIENCE = 20.0
# Closing a producer while it reconnects may hang, so none is closed.
_kept: list[Producer] = []


@dataclass
class Writer:
    bootstrap_servers: str
    name: str
    transactional_id: str
    timeout_ms: int
    rng: random.Random
    ends: dict[str, int] = field(
        default_factory=lambda: {"commit": 75, "abort": 18, "late": 2, "leave": 5}  # percentages
    )
    stopping: threading.Event = field(default_factory=threading.Event)
    number: int = 0

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                producer = self._new_producer()
                while self._transaction(producer) and not self.stopping.wait(self.rng.uniform(0, 0.02)):
                    pass
            except KafkaException:
                pass  # the outcome has been reported
            # Two writers with the same id fence each other forever; now and then one should make progress.
            self.stopping.wait(self.rng.uniform(0.05, 0.6))

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": self.timeout_ms,
                "message.timeout.ms": self.timeout_ms,
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "metadata.recovery.strategy": "none",
                "logger": None,
                "error_cb": lambda _: None,
            }
        )
        _kept.append(producer)
        producer.init_transactions(PATIENCE)
        return producer

    def compose(self, name: str) -> list[tuple[int, str]]:
        """Return the partitions and values to write in a transaction."""
        return [(self.rng.randrange(PARTITIONS), f"{name}-{i}") for i in range(self.rng.randint(1, 12))]

    def committed(self, places: list[tuple[int, str]]) -> None:
        """Handle the committed values."""

    def _transaction(self, producer: Producer) -> bool:
        """Run one transaction, reporting before and after. Return True if the producer can continue."""
        self.number += 1
        name = f"{self.name}-{self.number}"
        places = self.compose(name)
        offsets: dict[str, int] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[message.value().decode()] = message.offset()

        say(event="begin", transaction=name, records=places)
        end = self.rng.choices(list(self.ends), weights=list(self.ends.values()))[0]
        outcome = "unknown"
        try:
            producer.begin_transaction()
            for partition, value in places:
                producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
            if end != "commit":
                producer.flush(PATIENCE)  # aborted records should have been written
            if end == "late" and self.stopping.wait(self.timeout_ms / 1000 + 0.7):
                end = "commit"  # in time after all
            if end in ("commit", "late"):
                outcome = commit(producer)
            elif end == "abort":
                producer.abort_transaction(PATIENCE)
                outcome = "aborted"
            else:
                outcome = "left"
        except KafkaException as error:
            # No commit was requested, or `commit` would have reported its outcome.
            outcome = "left"
            say(event="trouble", transaction=name, message=str(error))
        finally:
            say(event="end", transaction=name, how=end, outcome=outcome, offsets=offsets)
        if outcome == "committed":
            self.committed(places)
        return outcome in ("committed", "aborted")


def commit(producer: Producer) -> str:
    """Return `refused` if the broker rejected the commit, and `unknown` if it did not respond."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            producer.commit_transaction(PATIENCE)
            return "committed"
        except KafkaException as exception:
            error = exception.args[0]
            say(event="trouble", message=str(error))
            if not error.retriable():
                return "refused" if error.code() in REFUSALS or error.txn_requires_abort() else "unknown"
    return "unknown"


REFUSALS = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_TXN_STATE,
)


def say(**event: Any) -> None:
    sys.stdout.write(json.dumps({"at": time.monotonic(), **event}) + "\n")
    sys.stdout.flush()


def main(kind: type[Writer] = Writer) -> None:
    bootstrap_servers, name, transactional_id, timeout_ms = sys.argv[1:]
    writer = kind(bootstrap_servers, name, transactional_id, int(timeout_ms), random.Random(name))

    def watch_stdin() -> None:
        sys.stdin.read()
        writer.stopping.set()

    threading.Thread(target=watch_stdin, daemon=True).start()
    writer.run()
    sys.stdout.flush()
    os._exit(0)  # without closing the producers


if __name__ == "__main__":
    main()
