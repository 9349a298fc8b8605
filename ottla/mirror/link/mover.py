"""Link on Spark: rows are ranges of offsets, and tasks copy those ranges from broker to broker.

No state is kept between runs. A new run resumes at the log end offsets of the target, and concurrent runs are safe.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.settings import Settings
from ottla.mirror.copy_loop import CopyLoop, CopyStatus
from ottla.mirror.errors import reason_of
from ottla.mirror.link.append import NoRoom, check_appended, mirror_append
from ottla.mirror.link.copy import LinkCopied, copy_log
from ottla.mirror.link.group_offsets import sync_group_offsets
from ottla.mirror.link.history import check_history
from ottla.mirror.link.settings import LinkSettings
from ottla.mirror.link.topics import LinkTopics
from ottla.mirror.mirror_maker import Every
from ottla.mirror.ranges_query import RangesQuery
from ottla.protocol.messages.produce import MirrorAppendPartitionResult
from ottla.spark.arrow_map import map_in_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_RESULT = "topic string, partition int, next bigint, bytes bigint, refusal string"
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.2
#: Interval between history checks. Tasks check too, but none run while the source is idle.
_HISTORY_SECONDS = 5.0
#: Delay before retrying a copy that the target had no room for.
_ROOM_SECONDS = 2.0


class LinkQuery:
    """Streaming query over a fixed set of partitions, replaced when topics are added or removed.

    Owner: the link's thread.
    """

    def __init__(self, spark: SparkSession, link: LinkSettings, topics: Mapping[str, int]) -> None:
        self._link = link
        self._topics = topics
        # Spark requires unique query names, and an earlier query of this link may still be stopping.
        self.query = RangesQuery(spark, f"link {link.name} {uuid.uuid4().hex}", self._copy)
        self._stopping = threading.Event()
        self.bytes_copied = 0
        #: Reason why the target currently accepts no records.
        self.waits_for = ""

    def start(self, target: Cluster) -> None:
        self.query.start(self._options(target))

    def stop(self) -> None:
        self._stopping.set()
        self.query.stop()

    def _options(self, target: Cluster) -> dict[str, str]:
        starting: dict[str, dict[str, int]] = {}
        for name, count in self._topics.items():
            for number in range(count):
                partition = TopicPartition(name, number)
                there = self._end_of(target, partition)
                # An empty mirror starts at the source's log start offset.
                offset = -2 if there.log_end_offset == there.log_start_offset else there.log_end_offset
                starting.setdefault(name, {})[str(number)] = offset
        return {
            **self._link.flow.source.spark_options(),
            "assign": json.dumps({name: list(range(count)) for name, count in self._topics.items()}),
            "startingOffsets": json.dumps(starting),
            "maxOffsetsPerTrigger": str(self._link.flow.max_offsets_per_trigger),
            "failOnDataLoss": "false",  # the copy detects data loss and reports more detail
            "kafka.isolation.level": "read_committed",
        }

    def _end_of(self, target: Cluster, partition: TopicPartition) -> MirrorAppendPartitionResult:
        def ask() -> MirrorAppendPartitionResult:
            answer = mirror_append(target, self._link.name, partition)
            check_appended(partition, answer)
            return answer

        return target.retrying(ask, [partition.topic])

    def _copy(self, frame: DataFrame, _number: int) -> None:
        """Copy the micro-batch, and retry while the target has no room. Records already copied are skipped."""
        while not self._stopping.is_set():
            rows = map_in_arrow(frame, self._task(), _RESULT).collect()
            self.bytes_copied += sum(row.bytes for row in rows)
            self.waits_for = next((row.refusal for row in rows if row.refusal), "")
            if not self.waits_for:
                return
            self._stopping.wait(_ROOM_SECONDS)

    def _task(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        flow, link = self._link.flow, self._link.name
        source, target, skip_gaps = flow.source.settings, flow.target.settings, flow.skip_gaps

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    yield _copy_row(row, source, target, link, skip_gaps)

        return run


def _copy_row(
    row: dict[str, object], source: Settings, target: Settings, link: str, skip_gaps: bool
) -> pa.RecordBatch:
    import pyarrow as pa

    partition = TopicPartition(str(row["topic"]), int(str(row["partition"])))
    refusal = ""
    try:
        copied = copy_log(source, target, link, partition, int(str(row["end"])), skip_gaps=skip_gaps)
    except NoRoom as error:
        copied, refusal = LinkCopied(partition, -1, 0), error.message
    columns = {
        "topic": pa.array([partition.topic], pa.string()),
        "partition": pa.array([partition.partition], pa.int32()),
        "next": pa.array([copied.next_offset], pa.int64()),
        "bytes": pa.array([copied.bytes], pa.int64()),
        "refusal": pa.array([refusal], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


class LinkMover:
    """Keeps a link's query running over the current topics and syncs the offsets of groups."""

    def __init__(self, spark: SparkSession, link: LinkSettings) -> None:
        self._spark = spark
        self._link = link
        self._stopping = threading.Event()
        self.status = CopyStatus(link.name)
        self._loop = CopyLoop(f"Link {link.name}", link.flow, self.status, self._stopping, _RETRY_SECONDS)
        self._thread = threading.Thread(target=self._loop.run, args=(self._copy,), name=f"link {link.name}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _copy(self, source: Cluster, target: Cluster) -> None:
        """Run until the topics change, the query fails or the process stops."""
        flow = self._link.flow
        topics = LinkTopics(self._link, source, target)
        copied = topics.prepare()
        partitions = [TopicPartition(name, each) for name, count in copied.items() for each in range(count)]
        refresh, groups, configs, history = map(
            Every,
            (flow.refresh_topics, flow.sync_group_offsets, flow.sync_topic_configs, _HISTORY_SECONDS),
        )
        refresh.is_due()
        copy = LinkQuery(self._spark, self._link, copied)
        try:
            if copied:
                copy.start(target)
            self._loop.running(tuple(copied))
            self._show(copy)
            while not self._stopping.wait(_LOOK_SECONDS):
                self._show(copy)
                if copied and not copy.query.is_running:
                    raise reason_of(copy.query.failure())
                if copy.waits_for:
                    continue  # other writes would fail as well
                if history.is_due():
                    check_history(source, target, partitions)
                if configs.is_due():
                    topics.sync_configs(copied)
                if groups.is_due():
                    sync_group_offsets(self._link, source, target, copied)
                if refresh.is_due() and topics.prepare() != copied:
                    return
        finally:
            copy.stop()

    def _show(self, copy: LinkQuery) -> None:
        if copy.waits_for:
            self._loop.waiting(copy.waits_for)
        else:
            self._loop.running(self.status.topics)
        self.status.bytes_copied = copy.bytes_copied
