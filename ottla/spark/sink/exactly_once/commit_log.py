"""Commits of a query as a pure replay of its commit log.

The log is a topic with one partition. Whether a record counts depends only on the records before it, so two runs of a
query may safely append at the same time. docs/explanation/exactly-once.md has the proof.

    begin   a run takes over with the next generation; records of older generations are void
    decide  these transactions commit the batch; it is never written again
    done    all of these transactions have ended
    undo    all of these transactions timed out and none is visible; the batch is written again
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.transactions import Transaction

#: Version of the JSON in a record. The oldest records have no version field.
_VERSION = 1
#: Number of earlier runs to remember, so that their leftover tasks are refused.
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class Decision:
    batch: int
    transactions: tuple[Transaction, ...]
    offset: int  # of the record with the decision


@dataclass(frozen=True, slots=True)
class CommitState:
    """State of the log. Generation 0 is an empty log."""

    generation: int = 0
    run: str = ""
    earlier_runs: tuple[str, ...] = ()
    #: Location of the query's checkpoint, if known.
    checkpoint: str = ""
    decision: Decision | None = None
    #: Whether all transactions of the decision have ended.
    done: bool = True

    def is_decided(self, batch: int) -> bool:
        return self.decision is not None and self.decision.batch == batch

    # Records for a writer to append after reading the log

    def begin(self, run: str, checkpoint: str = "") -> bytes:
        earlier = [*self.earlier_runs, self.run][-_REMEMBERED:] if self.run else []
        return _record(
            "begin",
            generation=self.generation + 1,
            run=run,
            earlier_runs=earlier,
            checkpoint=checkpoint or self.checkpoint,
        )

    def decide(self, batch: int, transactions: tuple[Transaction, ...]) -> bytes:
        return _record(
            "decide",
            generation=self.generation,
            run=self.run,
            earlier_runs=self.earlier_runs,
            checkpoint=self.checkpoint,
            batch=batch,
            transactions=transactions,
        )

    def finish(self, batch: int) -> bytes:
        return _record("done", batch=batch)

    def undo(self, batch: int) -> bytes:
        return _record("undo", generation=self.generation, batch=batch)

    # Replay

    def after(self, offset: int, value: bytes) -> CommitState:
        record = json.loads(value)
        if record.get("version", 1) > _VERSION:
            raise ClientError("A newer version of Ottla has run this query. Update Ottla to continue it.")
        kind = record["kind"]
        if kind == "begin" and record["generation"] > self.generation:
            return replace(
                self,
                generation=record["generation"],
                run=record["run"],
                earlier_runs=tuple(record["earlier_runs"]),
                checkpoint=record.get("checkpoint", ""),
            )
        # The log is trimmed up to a decision. Without earlier records, the first decision counts.
        if kind == "decide" and self.generation in (0, record["generation"]):
            if self.decision is not None and record["batch"] <= self.decision.batch:
                return self
            transactions = tuple(Transaction(*each) for each in record["transactions"])
            return CommitState(
                record["generation"],
                record["run"],
                tuple(record["earlier_runs"]),
                record.get("checkpoint", ""),
                Decision(record["batch"], transactions, offset),
                done=not transactions,
            )
        if kind == "done" and self.is_decided(record["batch"]):
            return replace(self, done=True)
        if kind == "undo" and record["generation"] == self.generation and not self.done:
            assert self.decision is not None
            if record["batch"] == self.decision.batch:
                return replace(self, decision=None, done=True)
        return self


def _record(kind: str, **fields: Any) -> bytes:
    return json.dumps({"version": _VERSION, "kind": kind, **fields}, separators=(",", ":")).encode()
