"""One flow as a streaming query: Spark plans ranges, its tasks copy them, and a micro-batch is one transaction.

Invariant: one transaction commits the copied records, their positions in MirrorMaker's source offsets topic, and the
runs used for offset translation. A flow therefore resumes from its positions on any machine, without the checkpoint.
The transactional id fences an earlier instance of the same flow.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.client.transactions import Transaction, TransactionClient
from ottla.mirror import formats, internal_topics
from ottla.mirror.errors import Recreated
from ottla.mirror.formats import OffsetSync, Position, Run
from ottla.mirror.internal_topics import Entry, InternalWriter
from ottla.mirror.ranges_query import RangesQuery
from ottla.mirror.raw_copy import CopyRange, copy_range
from ottla.mirror.settings import FlowSettings, Side
from ottla.mirror.topic_sync import CopiedTopic
from ottla.mirror.translation import Translation
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, ensure_audit_topic, record_of
from ottla.monitoring.audit.count_reports import CountReport
from ottla.monitoring.audit.counting import Tier
from ottla.protocol.errors import ErrorCode
from ottla.spark.arrow_map import map_in_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("ottla.mirror")

_RESULT = "topic string, partition int, next bigint, runs string, bytes bigint, reports string"
_TRANSACTION_TIMEOUT_MS = 300_000
_POSITION_PARTITIONS = 25


class CopyQuery:
    """Streaming query of a flow over a fixed set of partitions, replaced when topics are added or removed.

    Owner: the flow's thread. Micro-batches run in a Spark thread, and only that thread uses the transaction.
    """

    def __init__(
        self, spark: SparkSession, flow: FlowSettings, topics: Sequence[CopiedTopic], translation: Translation
    ) -> None:
        self._flow = flow
        self._topics = {topic.name: topic for topic in topics}
        self._translation = translation
        self.query = RangesQuery(spark, f"mirror {flow.name}", self._copy)
        #: Counted since this process started.
        self.bytes_copied = 0
        self.last_batch_at: float | None = None

    def start(self) -> None:
        with closing(Cluster(self._flow.target.settings)) as target:
            self._prepare(target)
            # Abort the transaction of an earlier instance before reading its positions.
            TransactionClient(target).begin(self._transactional_id, _TRANSACTION_TIMEOUT_MS)
            positions = read_positions(target, self._flow)
            self._check_topics(positions)
            load_runs(target, self._flow, self._translation)
        self.query.start(self._options(positions))

    # Before the first micro-batch

    @property
    def _transactional_id(self) -> str:
        return f"mirror-{self._flow.name}"

    def _prepare(self, target: Cluster) -> None:
        flow = self._flow
        factor = flow.offset_syncs_replication_factor
        positions = flow.policy.positions_topic(flow.source.alias)
        internal_topics.ensure(target, positions, partitions=_POSITION_PARTITIONS, replication_factor=factor)
        internal_topics.ensure(target, flow.policy.runs_topic(flow.source.alias), replication_factor=factor)
        if flow.audit is not None:
            ensure_audit_topic(target)
        if flow.emit_offset_syncs:
            with closing(Cluster(_syncs_side(flow).settings)) as cluster:
                syncs = flow.policy.offset_syncs_topic(_syncs_alias(flow))
                internal_topics.ensure(cluster, syncs, replication_factor=factor)

    def _check_topics(self, positions: Mapping[TopicPartition, Position]) -> None:
        for partition, position in positions.items():
            topic = self._topics.get(partition.topic)
            if topic is None or not position.topic_id or position.topic_id == topic.topic_id:
                continue
            if not self._flow.skip_gaps:
                raise Recreated(
                    f"Topic '{partition.topic}' of cluster {self._flow.source} was deleted and created again: it was "
                    f"copied up to offset {position.last_offset} of the old one. To copy the new one from its "
                    "beginning as well, set ottla.gaps = skip."
                )

    def _options(self, positions: Mapping[TopicPartition, Position]) -> dict[str, str]:
        assigned = {topic.name: list(range(topic.partitions)) for topic in self._topics.values()}
        first = -1 if self._flow.start_at_latest else -2
        starting: dict[str, dict[str, int]] = {}
        for name, partitions in assigned.items():
            for number in partitions:
                position = positions.get(TopicPartition(name, number))
                known = position is not None and position.topic_id in ("", self._topics[name].topic_id)
                offset = position.last_offset + 1 if position is not None and known else first
                starting.setdefault(name, {})[str(number)] = offset
        group = self._flow.commit_group
        return {
            **self._flow.source.spark_options(),
            **({} if group is None else {"ottla.commit.group": group}),
            "assign": json.dumps(assigned),
            "startingOffsets": json.dumps(starting),
            "maxOffsetsPerTrigger": str(self._flow.max_offsets_per_trigger),
            "failOnDataLoss": str(not self._flow.skip_gaps).lower(),
            "kafka.isolation.level": "read_committed",
        }

    # Micro-batches

    def _copy(self, frame: DataFrame, _number: int) -> None:
        with closing(Cluster(self._flow.target.settings)) as target:
            client = TransactionClient(target)
            transaction = client.begin(self._transactional_id, _TRANSACTION_TIMEOUT_MS)
            try:
                rows = map_in_arrow(frame, self._task(transaction), _RESULT).collect()
                copied = {
                    TopicPartition(row.topic, row.partition): (
                        row.next,
                        [Run(*each) for each in json.loads(row.runs)],
                    )
                    for row in rows
                }
                if not copied:
                    return
                reports = [CountReport.from_json(each) for row in rows for each in json.loads(row.reports)]
                self._write_positions(target, client, transaction, copied, reports)
            except BaseException:
                _abort(client, transaction)
                raise
            outcome = client.end([transaction], commit=True)[transaction]
            if outcome != ErrorCode.NONE:
                raise ClientError(
                    f"A transaction of flow {self._flow.name} cannot be committed: {outcome.name}.", outcome
                )
        for partition, (_, runs) in copied.items():
            for run in runs:
                self._translation.add(partition, run)
        self.bytes_copied += sum(row.bytes for row in rows)
        self.last_batch_at = time.monotonic()
        if self._flow.emit_offset_syncs and self._flow.offset_syncs_on_source:
            self._write_syncs(copied)

    def _task(
        self, transaction: Transaction
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        source, target = self._flow.source.settings, self._flow.target.settings
        remotes = {name: (topic.remote, topic.compacted) for name, topic in self._topics.items()}
        skip_gaps, audit = self._flow.skip_gaps, self._flow.audit

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    yield _copy_row(row, source, target, transaction, remotes, skip_gaps, audit)

        return run

    def _write_positions(
        self,
        target: Cluster,
        client: TransactionClient,
        transaction: Transaction,
        copied: Mapping[TopicPartition, tuple[int, list[Run]]],
        reports: Sequence[CountReport],
    ) -> None:
        flow = self._flow
        writer = InternalWriter(target, transaction)
        positions = [
            (
                formats.position_key(flow.source.alias, partition),
                formats.position_value(next_offset - 1, self._topics[partition.topic].topic_id),
            )
            for partition, (next_offset, _) in copied.items()
        ]
        divided = writer.partitions(flow.policy.positions_topic(flow.source.alias), positions)
        runs: list[Entry] = [
            (formats.run_key(partition, run), formats.run_value(run))
            for partition, (_, some) in copied.items()
            for run in some
        ]
        divided |= writer.partitions(flow.policy.runs_topic(flow.source.alias), runs) if runs else {}
        if flow.emit_offset_syncs and not flow.offset_syncs_on_source:
            syncs = flow.policy.offset_syncs_topic(_syncs_alias(flow))
            divided |= writer.partitions(syncs, _syncs(copied))
        if reports:
            records = [record_of(report) for report in reports]
            divided[TopicPartition(AUDIT_TOPIC, 0)] = [(each.key or b"", each.value) for each in records]
        client.add_partitions(transaction, divided)
        now = int(time.time() * 1000)
        for partition, entries in divided.items():
            writer.write(partition, entries, now)

    def _write_syncs(self, copied: Mapping[TopicPartition, tuple[int, list[Run]]]) -> None:
        """Write offset syncs to the source cluster, outside the transaction and therefore after the commit.

        A missing sync only makes MirrorMaker's translation less precise.
        """
        try:
            with closing(Cluster(self._flow.source.settings)) as source:
                topic = self._flow.policy.offset_syncs_topic(_syncs_alias(self._flow))
                InternalWriter(source).write_all(topic, _syncs(copied), int(time.time() * 1000))
        except ClientError as error:
            log.warning("Offset syncs of flow %s could not be written: %s", self._flow.name, error.message)


def _copy_row(
    row: Mapping[str, object],
    source: Settings,
    target: Settings,
    transaction: Transaction,
    remotes: Mapping[str, tuple[str, bool]],
    skip_gaps: bool,
    audit: Tier | None,
) -> pa.RecordBatch:
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        # Records written by the first attempt are part of the transaction. Abort it before writing again.
        raise ClientError("A task failed: its micro-batch is copied again as a whole.")
    partition = TopicPartition(str(row["topic"]), int(str(row["partition"])))
    remote, compacted = remotes[partition.topic]
    wanted = CopyRange(
        partition,
        int(str(row["start"])),
        int(str(row["end"])),
        TopicPartition(remote, partition.partition),
        compacted,
    )
    done = copy_range(source, target, transaction, wanted, skip_gaps=skip_gaps, audit=audit)
    columns = {
        "topic": pa.array([partition.topic], pa.string()),
        "partition": pa.array([partition.partition], pa.int32()),
        "next": pa.array([done.next_offset], pa.int64()),
        "runs": pa.array([json.dumps(done.runs)], pa.string()),
        "bytes": pa.array([done.bytes], pa.int64()),
        "reports": pa.array([json.dumps([report.to_json() for report in done.reports])], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _abort(client: TransactionClient, transaction: Transaction) -> None:
    """Abort after a failure. Log errors here instead of raising them, so that the original failure is reported."""
    try:
        client.end([transaction], commit=False, seconds=5)
    except ClientError as error:
        log.warning(
            "A transaction of '%s' stays open until it times out: %s",
            transaction.transactional_id,
            error.message,
        )


def _syncs(copied: Mapping[TopicPartition, tuple[int, list[Run]]]) -> list[Entry]:
    found: list[Entry] = []
    for partition, (_, runs) in copied.items():
        if runs:
            sync = OffsetSync(*partition, runs[-1].end - 1, runs[-1].target_end - 1)
            found.append((sync.key(), sync.value()))
    return found


def _syncs_side(flow: FlowSettings) -> Side:
    return flow.source if flow.offset_syncs_on_source else flow.target


def _syncs_alias(flow: FlowSettings) -> str:
    """Return the alias of the other cluster, which is part of the topic name."""
    return flow.target.alias if flow.offset_syncs_on_source else flow.source.alias


def read_positions(target: Cluster, flow: FlowSettings) -> dict[TopicPartition, Position]:
    found: dict[TopicPartition, Position] = {}
    for key, value in internal_topics.read_all(target, flow.policy.positions_topic(flow.source.alias)):
        read = formats.read_position(key, value, flow.source.alias)
        if read is None:
            continue
        partition, position = read
        if position is None:
            found.pop(partition, None)
        else:
            found[partition] = position
    return found


def load_runs(target: Cluster, flow: FlowSettings, translation: Translation) -> None:
    known: dict[bytes, bytes] = {}
    for key, value in internal_topics.read_all(target, flow.policy.runs_topic(flow.source.alias)):
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
    translation.clear()
    for key, value in known.items():
        try:
            translation.add(*formats.read_run(key, value))
        except formats.Unreadable:
            log.warning("Topic %s has a record that is not ours.", flow.policy.runs_topic(flow.source.alias))
