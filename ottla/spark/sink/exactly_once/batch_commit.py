"""Driver side of exactly-once: one record in the commit log commits a batch; then the transactions are ended.

docs/explanation/exactly-once.md describes the states and the consequences of a crash in each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.client.transactions import ONGOING, Transaction, TransactionClient
from ottla.protocol.errors import ErrorCode
from ottla.spark.sink.exactly_once.commit_log import CommitState, Decision
from ottla.spark.sink.exactly_once.commit_topic import CommitTopic
from ottla.spark.sink.exactly_once.task_transaction import Attempt, generation_of, id_prefix
from ottla.spark.source.data_loss import log, report

#: Transactional ids expire after a week without use.
_FORGOTTEN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
#: Errors of a late commit: the coordinator has aborted the transaction and bumped the epoch.
_LOST = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, _FORGOTTEN}
)
#: Share of the timeout that must remain after the decision, in case the driver dies and restarts.
_SHARE_LEFT = 1 / 4

_topics: dict[tuple[int, Settings, str], CommitTopic] = {}


def _commit_topic(cluster: Cluster, query: str) -> CommitTopic:
    return _topics.setdefault((os.getpid(), cluster.settings, query), CommitTopic(query))


def join_run(cluster: Cluster, query: str, run: str, checkpoint: str = "") -> CommitState:
    """Return the state of the query's log for a task, with this run as the current one.

    The first task of a run begins it. Later tasks need not read again: while the run is current, only its own driver
    appends decisions, and only after all tasks have ended.
    """
    topic = _commit_topic(cluster, query)
    if topic.state.run == run:
        return topic.state
    state = topic.read(cluster)
    while state.run != run:
        if run in state.earlier_runs:
            raise _superseded(query)
        state = topic.append(cluster, state.begin(run, checkpoint))
    return state


def check_batch(state: CommitState, query: str, batch: int) -> None:
    if state.decision is not None and batch < state.decision.batch:
        raise ClientError(
            f"The checkpoint of query {query} is at batch {batch}, but batch {state.decision.batch} has been "
            "committed. It was set back, or is a copy: start again with a new checkpoint."
        )


class BatchCommit:
    """Commits or aborts one micro-batch of a query, in the driver."""

    def __init__(self, cluster: Cluster, attempt: Attempt, timeout_ms: int) -> None:
        self._cluster = cluster
        self._query, self._generation, self._batch = attempt
        self._timeout_ms = timeout_ms
        self._topic = _commit_topic(cluster, self._query)
        self._client = TransactionClient(cluster)

    def commit(self, transactions: Sequence[Transaction], *, fail_on_loss: bool) -> None:
        state = self._topic.read(self._cluster)
        if state.generation != self._generation:
            raise _superseded(self._query)
        check_batch(state, self._query, self._batch)
        if not state.is_decided(self._batch):
            state = self._decide(state, tuple(sorted(transactions)))
        assert state.decision is not None
        if not state.done:
            self._carry_out(state.decision, fail_on_loss)
        abort_leftovers(self._client, self._query, self._generation, state.decision, self._timeout_ms)
        self._topic.trim(self._cluster)

    def abort(self) -> None:
        """Abort a batch that Spark gives up, possibly after a failed `commit`. The batch may still have been decided.

        Beginning the next generation ensures that no decision in flight can follow.
        """
        state = self._topic.read(self._cluster)
        while state.generation == self._generation:
            state = self._topic.append(self._cluster, state.begin(f"{state.run} was aborted"))
        abort_leftovers(
            self._client,
            self._query,
            self._generation,
            None if state.done else state.decision,
            self._timeout_ms,
        )

    def _decide(self, state: CommitState, transactions: tuple[Transaction, ...]) -> CommitState:
        check_open(self._client, transactions)
        state = self._topic.append(self._cluster, state.decide(self._batch, transactions))
        decision = state.decision
        if decision is None or (decision.batch, decision.transactions) != (self._batch, transactions):
            raise _superseded(self._query)
        return state

    def _carry_out(self, decision: Decision, fail_on_loss: bool) -> None:
        outcome = self._client.end(decision.transactions, commit=True)
        lost = not_committed(outcome)
        if lost:
            self._check_loss(decision, lost, fail_on_loss)
        self._topic.append(self._cluster, self._topic.state.finish(decision.batch))

    def _check_loss(self, decision: Decision, lost: dict[Transaction, ErrorCode], fail_on_loss: bool) -> None:
        state = self._topic.read(self._cluster)
        if state.generation != self._generation:
            raise _superseded(self._query)  # the new run has ended the transactions
        forgotten = [each for each, code in lost.items() if code == _FORGOTTEN]
        if len(lost) == len(decision.transactions) and not forgotten:
            self._topic.append(self._cluster, state.undo(decision.batch))
            raise ClientError(
                f"Nothing of batch {decision.batch} was committed: its transactions had timed out when the query came "
                "back to commit them. Start the query again, and the batch is written again."
            )
        ids = ", ".join(each.transactional_id for each in lost)
        count = f"{len(lost)} of {len(decision.transactions)} transactions"
        if forgotten:
            why = "are no longer known to the brokers, and nobody can tell whether their rows were committed"
        else:
            why = "timed out before they were committed, and their rows are lost"
        report(f"{count} of batch {decision.batch} of query {self._query} {why}: {ids}", fail=fail_on_loss)


def check_open(client: TransactionClient, transactions: Sequence[Transaction]) -> None:
    """Check before the decision that all transactions can be committed, with time to spare. Raises ClientError."""
    found = client.describe(each.transactional_id for each in transactions)
    now = time.time() * 1000
    for each in transactions:
        state = found.get(each.transactional_id)
        if state is None or (state.state, *state[1:3]) != (ONGOING, each.producer_id, each.producer_epoch):
            raise _too_late(f"the transaction of '{each.transactional_id}' is not open any more")
        age = now - state.start_ms
        if age > state.timeout_ms * (1 - _SHARE_LEFT):
            raise _too_late(f"it is open for {age / 1000:.0f} of {state.timeout_ms / 1000:.0f} seconds")


def not_committed(outcome: dict[Transaction, ErrorCode]) -> dict[Transaction, ErrorCode]:
    """Return the lost transactions. Raises ClientError for any other failure."""
    for each, code in outcome.items():
        if code != ErrorCode.NONE and code not in _LOST:
            raise ClientError(
                f"The transaction of '{each.transactional_id}' cannot be committed: {code.name}.", code
            )
    return {each: code for each, code in outcome.items() if code != ErrorCode.NONE}


def abort_leftovers(
    client: TransactionClient, query: str, generation: int, decision: Decision | None, timeout_ms: int
) -> None:
    """Abort transactions left open by failed attempts, so that consumers need not wait for the timeout.

    Only generations up to this one are aborted, because a later one may be running.
    """
    decided = {each.transactional_id for each in decision.transactions} if decision is not None else set()
    try:
        for each in client.open_ids(id_prefix(query)):
            if each not in decided and generation_of(each, query) <= generation:
                client.begin(each, timeout_ms)
    except ClientError as error:
        log.warning("Transactions of query %s may stay open until they time out: %s", query, error.message)


def _superseded(query: str) -> ClientError:
    return ClientError(f"Another run of query {query} has taken over: only one may run at a time.")


def _too_late(reason: str) -> ClientError:
    return ClientError(
        f"The batch took too long to be committed: {reason}. Raise kafka.transaction.timeout.ms (and "
        "transaction.max.timeout.ms of the brokers), or make batches smaller."
    )
