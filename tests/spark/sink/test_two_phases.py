"""Promise: prepared tasks are committed as a whole or not at all, by any process and any number of times.

Without Spark: tasks and drivers are function calls, so that tests can stop and repeat each. The same tests run against
Apache Kafka.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.transactions import Transaction, TransactionClient
from ottla.protocol.internal_topics import COMMIT_TOPIC_PREFIX
from ottla.spark.checkpoints import location, remove
from ottla.spark.sink.exactly_once import batch_commit, commit_topic
from ottla.spark.sink.exactly_once.batch_commit import BatchCommit, check_batch, join_run
from ottla.spark.sink.exactly_once.commit_topic import CommitTopic
from ottla.spark.sink.exactly_once.commit_topic_removal import Finding, examine, remove_commit_topics
from ottla.spark.sink.exactly_once.task_transaction import Attempt
from ottla.spark.sink.sink_options import SinkOptions, parse_sink_options
from ottla.spark.sink.task import prepare_rows
from ottla.spark.source.data_loss import DataLoss
from ottla.testing import Broker
from tests.spark.consuming import consume

PARTITIONS = 2
TIMEOUT_MS = 60_000


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=pytest.mark.peers)])
def servers(request: pytest.FixtureRequest) -> str:
    if request.param == "kafka":
        found: str = request.getfixturevalue("apache_kafka")
        return found
    broker: Broker = request.getfixturevalue("ottla_broker")
    return broker.bootstrap_servers


class Query:
    """One query with any number of runs."""

    def __init__(self, servers: str, **options: str) -> None:
        self._servers = servers
        self.id = str(uuid.uuid4())
        self.topic = f"two-phases-{self.id}"
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(30)
        given = {
            "kafka.bootstrap.servers": servers,
            "topic": self.topic,
            "kafka.transaction.timeout.ms": str(TIMEOUT_MS),
            "kafka.delivery.timeout.ms": "20000",
        }
        self.options: SinkOptions = parse_sink_options(
            given | {name.replace("__", "."): value for name, value in options.items()}, streaming=True
        )
        self.cluster = Cluster(self.options.settings)
        self.client = TransactionClient(self.cluster)

    def forget(self) -> None:
        """Forget the state of dead processes."""
        batch_commit._topics.clear()

    def attempt(self, run: str, batch: int, checkpoint: Path | None = None) -> Attempt:
        where = "" if checkpoint is None else location(str(checkpoint))
        state = join_run(self.cluster, self.id, run, where)
        check_batch(state, self.id, batch)
        return Attempt(self.id, state.generation, batch)

    def task(self, attempt: Attempt, *values: str) -> Transaction:
        rows = pa.record_batch({"key": [*values], "value": [*values]})
        count, transaction = prepare_rows(self.options, iter([rows]), attempt)
        assert count == len(values)
        assert transaction is not None
        return transaction

    def driver(self, attempt: Attempt) -> BatchCommit:
        return BatchCommit(self.cluster, attempt, self.options.transaction_timeout_ms)

    def commit(self, attempt: Attempt, *transactions: Transaction) -> None:
        self.driver(attempt).commit(transactions, fail_on_loss=self.options.fail_on_data_loss)

    def visible(self) -> list[str]:
        found = consume(self._servers, self.topic, PARTITIONS)
        return sorted(message.value().decode() for message in found)

    def open(self) -> list[str]:
        return self.client.open_ids(f"ottla-spark-{self.id}")


@pytest.fixture
def query(servers: str) -> Iterator[Query]:
    made = Query(servers)
    yield made
    made.cluster.close()
    _close_shared()


def _close_shared() -> None:
    from ottla.client import cluster

    cluster._close_shared()
    cluster._clusters.clear()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_rows_are_visible_when_the_driver_has_committed_them(query: Query) -> None:
    for batch in range(3):
        attempt = query.attempt("run", batch)
        prepared = [query.task(attempt, f"{batch}a", f"{batch}b"), query.task(attempt, f"{batch}c")]
        assert len(query.visible()) == 3 * batch
        query.commit(attempt, *prepared)
        wait_until(lambda batch=batch: len(query.visible()) == 3 * batch + 3)  # type: ignore[misc]
    assert Counter(query.visible()) == Counter(f"{batch}{letter}" for batch in range(3) for letter in "abc")


def test_transactional_ids_are_used_again_by_the_next_batch(query: Query) -> None:
    used = []
    for batch in range(3):
        attempt = query.attempt("run", batch)
        prepared = [query.task(attempt, "x"), query.task(attempt, "y")]
        query.commit(attempt, *prepared)
        used.append({each.transactional_id for each in prepared})
    assert used[0] == used[1] == used[2]
    assert len(used[0]) == 2


def test_attempts_that_were_not_needed_are_aborted_with_the_commit(query: Query) -> None:
    attempt = query.attempt("run", 0)
    query.task(attempt, "lost race")
    winner = query.task(attempt, "winner")
    query.commit(attempt, winner)
    assert query.open() == []
    wait_until(lambda: query.visible() == ["winner"])


def test_what_a_dead_run_left_open_is_aborted_by_the_next(query: Query) -> None:
    query.task(query.attempt("dead", 0), "of a dead run")
    query.forget()
    attempt = query.attempt("next", 0)
    query.commit(attempt, query.task(attempt, "again"))
    assert query.open() == []
    wait_until(lambda: query.visible() == ["again"])


def decide_only(query: Query, attempt: Attempt, *transactions: Transaction) -> None:
    """Run a driver that dies right after the decision."""
    topic = CommitTopic(query.id)
    state = topic.read(query.cluster)
    topic.append(query.cluster, state.decide(attempt.batch, tuple(sorted(transactions))))


@pytest.mark.parametrize("ended", [0, 1, 2], ids=["none ended", "one ended", "all ended"])
def test_a_decision_is_carried_out_by_the_next_run(query: Query, ended: int) -> None:
    first = query.attempt("dead", 5)
    prepared = [query.task(first, "a", "b"), query.task(first, "c")]
    decide_only(query, first, *prepared)
    query.client.end(prepared[:ended], commit=True)
    query.forget()
    state = join_run(query.cluster, query.id, "next")
    assert state.is_decided(5)  # so tasks write nothing
    query.commit(Attempt(query.id, state.generation, 5))
    wait_until(lambda: query.visible() == ["a", "b", "c"])
    # Repeat, as if the checkpoint had no record of it.
    query.forget()
    again = join_run(query.cluster, query.id, "one more")
    query.commit(Attempt(query.id, again.generation, 5))
    assert query.visible() == ["a", "b", "c"]


def test_a_driver_that_comes_back_from_the_dead_decides_nothing(query: Query) -> None:
    old = query.attempt("old", 0)
    late = query.task(old, "late")
    query.forget()
    new = query.attempt("new", 0)
    query.commit(new, query.task(new, "new"))
    with pytest.raises(ClientError, match=r"Another run of query .* has taken over"):
        query.commit(old, late)
    with pytest.raises(ClientError, match=r"Another run of query .* has taken over"):
        query.attempt("old", 1)
    query.driver(old).abort()
    wait_until(lambda: query.visible() == ["new"])
    # The new run continues.
    following = query.attempt("new", 1)
    query.commit(following, query.task(following, "next"))
    wait_until(lambda: query.visible() == ["new", "next"])


def test_an_aborted_batch_leaves_nothing_open_and_is_written_again(query: Query) -> None:
    attempt = query.attempt("run", 0)
    query.task(attempt, "first try")
    query.driver(attempt).abort()
    assert query.open() == []
    with pytest.raises(ClientError, match="Another run"):
        query.commit(attempt)
    query.forget()
    again = query.attempt("run after it", 0)
    query.commit(again, query.task(again, "second try"))
    wait_until(lambda: query.visible() == ["second try"])


def test_an_abort_after_the_decision_takes_nothing_back(query: Query) -> None:
    """Spark calls abort even after a commit that failed half-way."""
    attempt = query.attempt("run", 0)
    prepared = query.task(attempt, "decided")
    decide_only(query, attempt, prepared)
    query.driver(attempt).abort()
    query.forget()
    state = join_run(query.cluster, query.id, "next")
    query.commit(Attempt(query.id, state.generation, 0))
    wait_until(lambda: query.visible() == ["decided"])


def test_a_transaction_that_is_gone_before_the_decision_fails_the_batch(query: Query) -> None:
    attempt = query.attempt("run", 0)
    prepared = query.task(attempt, "x")
    query.client.begin(prepared.transactional_id, TIMEOUT_MS)  # like a timeout, this aborts and fences
    with pytest.raises(ClientError, match=r"took too long to be committed: .* is not open any more"):
        query.commit(attempt, prepared)
    assert query.visible() == []


def test_transactions_that_all_timed_out_after_the_decision_are_written_again(query: Query) -> None:
    attempt = query.attempt("run", 0)
    prepared = [query.task(attempt, "x"), query.task(attempt, "y")]
    decide_only(query, attempt, *prepared)
    for each in prepared:
        query.client.begin(each.transactional_id, TIMEOUT_MS)
    with pytest.raises(ClientError, match="Nothing of batch 0 was committed"):
        query.commit(attempt)
    query.forget()
    again = query.attempt("next", 0)
    assert not join_run(query.cluster, query.id, "next").is_decided(0)
    query.commit(again, query.task(again, "x", "y"))
    wait_until(lambda: query.visible() == ["x", "y"])


def test_one_that_timed_out_after_the_decision_is_said_and_not_passed_over(servers: str) -> None:
    query = Query(servers, failOnDataLoss="true")
    attempt = query.attempt("run", 0)
    prepared = [query.task(attempt, "x"), query.task(attempt, "y")]
    decide_only(query, attempt, *prepared)
    query.client.begin(prepared[0].transactional_id, TIMEOUT_MS)
    for _ in range(2):
        with pytest.raises(DataLoss, match=r"1 of 2 transactions of batch 0 .* their rows are lost"):
            query.commit(attempt)
    query.driver(attempt).commit([], fail_on_loss=False)
    query.commit(attempt)
    wait_until(lambda: query.visible() == ["y"])
    query.cluster.close()
    _close_shared()


def test_a_timeout_is_told_before_anything_is_decided(servers: str) -> None:
    query = Query(servers, kafka__transaction__timeout__ms="2000")
    attempt = query.attempt("run", 0)
    prepared = query.task(attempt, "x")
    time.sleep(1.6)  # three quarters of the timeout
    with pytest.raises(ClientError, match="took too long to be committed"):
        query.commit(attempt, prepared)
    query.cluster.close()
    _close_shared()


def test_a_timeout_that_brokers_do_not_allow_is_one_sentence(servers: str) -> None:
    query = Query(servers, kafka__transaction__timeout__ms="100000000")
    with pytest.raises(ClientError, match="allows no transaction of 100000000 ms"):
        query.task(query.attempt("run", 0), "x")
    query.cluster.close()
    _close_shared()


def test_the_commit_log_stays_short_and_means_the_same(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_topic, "_TRIM_AFTER", 5)
    for batch in range(12):
        attempt = query.attempt("run", batch)
        query.commit(attempt, query.task(attempt, str(batch)))
    held = consume(query._servers, f"{COMMIT_TOPIC_PREFIX}{query.id}", 1)
    assert len(held) < 10
    query.forget()
    state = join_run(query.cluster, query.id, "next")
    assert state.is_decided(11)
    assert (state.generation, state.done) == (2, True)


def checkpoint_of(query: Query, folder: Path) -> Path:
    """Create a checkpoint like Spark."""
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": query.id}))
    return folder


def finding(query: Query) -> Finding:
    return next(each for each in examine(query.cluster) if each.query == query.id)


def test_a_log_is_kept_as_long_as_its_checkpoint_is_there(query: Query, tmp_path: Path) -> None:
    """Promise: a checkpoint never loses the proof of a commit that it may still need."""
    checkpoint = checkpoint_of(query, tmp_path / "a check%20point")
    attempt = query.attempt("run-1", 0, checkpoint)
    transaction = query.task(attempt, "a")
    assert finding(query).reason == "a transaction of its query is open"
    query.commit(attempt, transaction)
    assert finding(query) == Finding(
        f"{COMMIT_TOPIC_PREFIX}{query.id}", query.id, False, f"its query can go on from {checkpoint}"
    )
    # Another query may have taken the directory; then this one never returns.
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    assert finding(query).removable
    assert remove(checkpoint) != []
    assert finding(query) == Finding(
        f"{COMMIT_TOPIC_PREFIX}{query.id}",
        query.id,
        True,
        f"the checkpoint of its query is gone from {checkpoint}",
    )
    assert remove_commit_topics(query.cluster, [query.id]) == [f"{COMMIT_TOPIC_PREFIX}{query.id}"]
    assert query.id not in [each.query for each in examine(query.cluster)]
    assert remove_commit_topics(query.cluster, [query.id]) == []


def test_a_log_whose_checkpoint_is_not_here_is_kept(query: Query) -> None:
    query.commit(query.attempt("run-1", 0))
    assert finding(query).reason == "where the checkpoint of its query is was not recorded"
    join_run(query.cluster, query.id, "run-2", "s3a://bucket/checkpoints/q")
    query.forget()
    assert finding(query).reason == "the checkpoint of its query is elsewhere: s3a://bucket/checkpoints/q"
    join_run(query.cluster, query.id, "run-3", "file://another-host/checkpoints/q")
    query.forget()
    assert not finding(query).removable


def test_the_checkpoint_is_known_after_the_log_was_trimmed(
    query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_topic, "_TRIM_AFTER", 1)
    checkpoint = checkpoint_of(query, tmp_path / "checkpoint")
    for batch in range(3):
        query.commit(query.attempt("run-1", batch, checkpoint))
    query.forget()
    assert finding(query).reason == f"its query can go on from {checkpoint}"


def test_a_driver_that_outlived_its_log_decides_nothing(query: Query) -> None:
    """Promise: after a log is deleted and recreated, two drivers cannot both decide."""
    for run in range(1, 6):
        old = query.attempt(f"run-{run}", 0)
    left = query.task(old, "old")
    driver = query.driver(old)
    assert remove_commit_topics(query.cluster, [query.id])
    query.forget()
    for batch in range(4):  # makes the new log longer than the old driver's position
        new = query.attempt("run-6", batch)
        query.commit(new, query.task(new, f"new-{batch}"))
    assert new.generation < old.generation
    with pytest.raises(ClientError, match="Another run of query"):
        driver.commit([left], fail_on_loss=True)
    driver.abort()
    assert query.visible() == [f"new-{batch}" for batch in range(4)]
