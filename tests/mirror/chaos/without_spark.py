"""A flow whose micro-batches run in threads of this process: `python -m tests.mirror.chaos.without_spark FILE`.

All of Ottla's parts are the same as on Spark: tasks, transactions, positions, groups. Spark's planning and task retries
are missing, but it starts in a second, so that more kills fit into an hour.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.client.transactions import TransactionClient
from ottla.mirror import flow as flows
from ottla.mirror.mirror_maker import _Beside
from ottla.mirror.settings import FlowSettings, parse_flows
from ottla.mirror.topic_sync import TopicSync
from ottla.mirror.translation import Translation
from ottla.properties import parse_properties

Row = dict[str, Any]
_TIMEOUT_MS = 300_000


def map_in_threads(
    rows: list[Row], task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _schema: str
) -> SimpleNamespace:
    """Replace `map_in_arrow`: run two tasks at a time and yield their results."""

    def run(row: Row) -> list[Row]:
        return [
            found for each in task(iter([pa.RecordBatch.from_pylist([row])])) for found in each.to_pylist()
        ]

    def collect() -> list[SimpleNamespace]:
        with ThreadPoolExecutor(2) as pool:
            return [SimpleNamespace(**found) for some in pool.map(run, rows) for found in some]

    return SimpleNamespace(collect=collect)


def copy(flow: FlowSettings, translation: Translation) -> None:
    """Copy until an error occurs."""
    with closing(Cluster(flow.source.settings)) as source, closing(Cluster(flow.target.settings)) as target:
        topics = TopicSync(flow, source, target).topics()
        query = flows.CopyQuery(None, flow, topics, translation)  # type: ignore[arg-type]
        query._prepare(target)
        TransactionClient(target).begin(query._transactional_id, _TIMEOUT_MS)
        positions = flows.read_positions(target, flow)
        query._check_topics(positions)
        flows.load_runs(target, flow, translation)
        places = [TopicPartition(each.name, number) for each in topics for number in range(each.partitions)]
        first = list_offsets(source, dict.fromkeys(places, EARLIEST))
        at = {
            each: positions[each].last_offset + 1 if each in positions else first[each].offset
            for each in places
        }
        print(f"RUNNING from {sum(at.values())} on", flush=True)
        most = max(1, flow.max_offsets_per_trigger // len(at))
        while True:
            ends = list_offsets(source, dict.fromkeys(at, LATEST), READ_COMMITTED)
            wanted = {each: min(ends[each].offset, at[each] + most) for each in at}
            rows = [
                {"topic": each.topic, "partition": each.partition, "start": at[each], "end": end}
                for each, end in wanted.items()
                if end > at[each]
            ]
            if rows:
                query._copy(rows, 0)  # type: ignore[arg-type]
                at = {each: max(at[each], end) for each, end in wanted.items()}
            else:
                time.sleep(0.1)


def main() -> None:
    text = Path(sys.argv[1]).read_text()
    flow = next(
        each
        for each in parse_flows({each.key: each.value for each in parse_properties(text)})
        if each.enabled
    )
    flows.map_in_arrow = map_in_threads  # type: ignore[assignment]
    translation = Translation()
    groups = _Beside(flow, translation, threading.Event())
    threading.Thread(target=groups.run, daemon=True).start()
    while True:
        try:
            copy(flow, translation)
        except ClientError as error:
            print(f"FAILED {type(error).__name__}: {error.message}", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
