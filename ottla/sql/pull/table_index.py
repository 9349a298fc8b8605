"""Index of a table's topic: the last record of each key, in a local LMDB file.

The index replays the committed records of the topic and stores its positions. It is a cache and is rebuilt if the topic
was recreated, if tombstones may have been missed, or if the file is damaged. The file is never synced, so its name
contains the boot id, and it is not used after a reboot.

The sort order is: hash of the key columns, start and end of the window, hash of the key bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.cluster import Cluster, TopicPartition, shared_cluster
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.spark.formats.json_decoder import JsonDecoder
from ottla.spark.source.range_reader import read_range
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.source_options import SourceOptions, parse_options
from ottla.sql.pull.json_values import raw_type
from ottla.sql.pull.key_codec import KeyCodec, Odd
from ottla.sql.registered.codecs import PartCodec
from ottla.sql.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

_FORMAT = 1
#: Address space for the file. The file itself only grows as needed.
_MAP_SIZE = 64 << 30
_RECORD = struct.Struct(">iqqi")  # partition, offset, timestamp, length of the key
_STATE = b"state"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: How long cached topic configs stay valid.
_SETTINGS_SECONDS = 60.0


class Found(NamedTuple):
    raw: bytes  # key as in the record
    key: bytes  # key without its window
    value: bytes
    partition: int
    offset: int
    timestamp_ms: int
    start: int | None  # start of the window
    end: int | None


class Range(NamedTuple):
    """Range of milliseconds, inclusive on both ends."""

    first: int = -(2**62)
    last: int = 2**62

    def holds(self, value: int | None) -> bool:
        return value is None or self.first <= value <= self.last


class TableIndex:
    """Invariant: the file is the replay of each partition up to `positions`.

    Threads and processes share the index. A file lock serialises them, and each starts from the last committed state.
    """

    def __init__(
        self, directory: Path, source: Source, options: Mapping[str, str], codec: PartCodec | None = None
    ) -> None:
        self._directory = directory.with_name(f"{directory.name}-{_boot()}")
        self._topic = source.topic
        self._codec = KeyCodec(source)
        self._options: SourceOptions = parse_options(
            {**options, "subscribe": source.topic, "failOnDataLoss": "false"}, streaming=False
        )
        # Values that are not JSON do not replace a row: see `frames`.
        is_json = source.value_format == "JSON" and bool(source.values) and not source.is_unwrapped
        self._decoder = JsonDecoder(raw_type(source.values), "UTC", lax=True) if is_json else None
        self._values = None if source.is_unwrapped else codec
        self._lock = threading.Lock()
        self._environment: Any = None
        self._settings_at = -_SETTINGS_SECONDS
        self._tombstones_ms = 0

    def find(self, keys: Iterable[bytes], starts: Range, ends: Range) -> list[Found]:
        """Return the rows of these keys (from `KeyCodec.canonical`) as of the last stable offset."""
        import lmdb

        with self._lock:
            try:
                return self._find(keys, starts, ends)
            except lmdb.MapFullError:
                self._delete()
                raise Odd from None  # too large for an index
            except lmdb.Error:
                self._delete()
                return self._find(keys, starts, ends)

    def close(self) -> None:
        with self._lock:
            self._close()

    def remove(self) -> None:
        with self._lock:
            self._delete()

    # Lookups

    def _find(self, keys: Iterable[bytes], starts: Range, ends: Range) -> list[Found]:
        with shared_cluster(self._options.settings) as cluster:
            limits, state = self._catch_up(cluster)
        if state.get("odd"):
            raise Odd
        found: list[Found] = []
        with self._environment.begin(db=self._rows) as transaction, transaction.cursor() as cursor:
            for key in keys:
                for each in self._entries(cursor, _digest(key)):
                    # Records below the log start offset are no longer rows.
                    if (
                        each.offset >= limits[each.partition]
                        and starts.holds(each.start)
                        and ends.holds(each.end)
                    ):
                        found.append(each)
        return found

    def _entries(self, cursor: Any, prefix: bytes) -> Iterator[Found]:
        if not cursor.set_range(prefix):
            return
        for place, data in cursor:
            if not place.startswith(prefix):
                return
            partition, offset, timestamp, length = _RECORD.unpack_from(data)
            key = data[_RECORD.size : _RECORD.size + length]
            parts = self._codec.split(key)
            assert parts is not None
            yield Found(
                key,
                parts.key,
                data[_RECORD.size + length :],
                partition,
                offset,
                timestamp,
                parts.start,
                parts.end,
            )

    # Catching up

    def _catch_up(self, cluster: Cluster) -> tuple[dict[int, int], dict[str, Any]]:
        """Catch up with the topic. Return the start offsets and the state of the complete index."""
        topic = cluster.topics([self._topic]).get(self._topic)
        if topic is None:
            raise ClientError(f"The topic '{self._topic}' does not exist.")
        starts = _offsets(cluster, topic.partitions, EARLIEST)
        ends = _offsets(cluster, topic.partitions, LATEST)
        identity = topic.topic_id.hex()
        self._open()
        state = self._state()
        if self._is_complete(state, identity, ends):
            return starts, state
        with self._only_process():
            if _is_ahead(self._state(), ends):  # another process has fetched later end offsets
                ends = _offsets(cluster, topic.partitions, LATEST)
            return starts, self._catch_up_to(cluster, identity, starts, ends)

    def _catch_up_to(
        self, cluster: Cluster, identity: str, starts: dict[int, int], ends: dict[int, int]
    ) -> dict[str, Any]:
        state = self._state()  # another process may have been first
        if self._must_begin_anew(cluster, state, identity, ends):
            self._delete()
            self._open()
            state = {}
        state |= {"format": _FORMAT, "topic_id": identity}
        state.setdefault("positions", {})
        for number, end in ends.items():
            first = max(state["positions"].get(str(number), 0), starts[number])
            if first < end:
                self._read(OffsetRange(TopicPartition(self._topic, number), first, end), state)
            state["positions"][str(number)] = max(first, end)
        self._sweep(starts, state)
        state["caught_up_at"] = time.time()
        self._commit({}, state)
        return state

    @contextlib.contextmanager
    def _only_process(self) -> Iterator[None]:
        """Hold a lock between processes. Two concurrent replays would undo each other's later records."""
        path = self._directory.with_name(f"{self._directory.name}.lock")
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _is_complete(self, state: dict[str, Any], identity: str, ends: dict[int, int]) -> bool:
        return (
            state.get("format") == _FORMAT
            and state.get("topic_id") == identity
            and state.get("positions") == {str(number): end for number, end in ends.items()}
        )

    def _must_begin_anew(
        self, cluster: Cluster, state: dict[str, Any], identity: str, ends: dict[int, int]
    ) -> bool:
        if not state:
            return False
        if state.get("format") != _FORMAT or state.get("topic_id") != identity:
            return True
        if _is_ahead(state, ends):
            return True  # the topic has lost records at its end
        # Compaction may have removed the tombstone of a row that the index still has.
        away_ms: float = (time.time() - state.get("caught_up_at", 0)) * 1000
        return away_ms > self._kept_tombstones_ms(cluster)

    def _kept_tombstones_ms(self, cluster: Cluster) -> int:
        if time.monotonic() - self._settings_at > _SETTINGS_SECONDS:
            try:
                found = describe_configs(cluster, Resource("topic", self._topic), synonyms=False)
            except ClientError:
                return 0  # no permission to read the configs: rebuild
            values = {each.name: each.value for each in found}
            compacted = "compact" in (values.get("cleanup.policy") or "")
            self._tombstones_ms = int(values.get("delete.retention.ms") or 0) if compacted else 2**62
            self._settings_at = time.monotonic()
        return self._tombstones_ms

    def _read(self, wanted: OffsetRange, state: dict[str, Any]) -> None:
        number = wanted.partition.partition
        for batch in read_range(self._options, wanted):
            changes = self._changes(batch, number, state)
            if batch.num_rows:
                state["positions"][str(number)] = batch.column("offset")[-1].as_py() + 1
                self._commit(changes, state)

    def _changes(
        self, batch: pa.RecordBatch, number: int, state: dict[str, Any]
    ) -> dict[bytes, bytes | None]:
        """Return the changes by index key. None deletes a row."""
        import pyarrow as pa

        values = batch.column("value")
        bad = self._decoder.decode(values).reasons if self._decoder is not None else {}
        if self._values is not None:
            bad = self._values.unreadable(values)
        times = batch.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        columns = (batch.column("key"), values, batch.column("offset"), times)
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        changes: dict[bytes, bytes | None] = {}
        for row, (key, value, offset, timestamp) in enumerate(rows):
            if key is None or row in bad:
                continue
            try:
                place = self._place(key)
            except Odd:
                state["odd"] = True
                continue
            if place is None:
                continue
            if value is None:
                changes[place] = None
            else:
                changes[place] = _RECORD.pack(number, offset, timestamp, len(key)) + key + value
        return changes

    def _place(self, raw: bytes) -> bytes | None:
        parts = self._codec.split(raw)
        key = None if parts is None else self._codec.canonical(parts.key)
        if parts is None or key is None:
            return None
        window = b"" if parts.start is None else struct.pack(">qq", parts.start, parts.end)
        return _digest(key) + window + hashlib.blake2b(raw, digest_size=8).digest()

    def _sweep(self, starts: dict[int, int], state: dict[str, Any]) -> None:
        """Delete rows below the log start offset once they may be half of the index."""
        swept = state.setdefault("swept", {})
        gone = sum(start - swept.get(str(number), 0) for number, start in starts.items())
        with self._environment.begin() as transaction:
            held = transaction.stat(self._rows)["entries"]
        if gone == 0 or 2 * gone < held:
            return
        dead: dict[bytes, bytes | None] = {}
        with self._environment.begin(db=self._rows) as transaction, transaction.cursor() as cursor:
            for place, data in cursor:
                partition, offset, *_ = _RECORD.unpack_from(data)
                if offset < starts.get(partition, 0):
                    dead[place] = None
        state["swept"] = {str(number): start for number, start in starts.items()}
        self._commit(dead, state)

    # The file

    def _open(self) -> None:
        import lmdb

        if self._environment is not None:
            return
        try:
            self._begin()
        except lmdb.Error:
            self._delete()
            self._begin()

    def _begin(self) -> None:
        import lmdb

        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = self._directory / "data.mdb"
        size = data.stat().st_size if data.exists() else 0
        self._environment = lmdb.open(
            str(self._directory), map_size=_MAP_SIZE, max_dbs=2, mode=0o600, sync=False, metasync=False
        )
        info = self._environment.info()
        if size and size < (info["last_pgno"] + 1) * self._environment.stat()["psize"]:
            raise lmdb.CorruptedError(
                str(data)
            )  # the file is mapped: accessing a missing page would kill the process
        self._rows = self._environment.open_db(b"rows")

    def _commit(self, changes: Mapping[bytes, bytes | None], state: dict[str, Any]) -> None:
        with self._environment.begin(write=True) as transaction:
            for place in sorted(changes):
                data = changes[place]
                if data is None:
                    transaction.delete(place, db=self._rows)
                else:
                    transaction.put(place, data, db=self._rows)
            transaction.put(_STATE, json.dumps(state).encode())

    def _state(self) -> dict[str, Any]:
        with self._environment.begin() as transaction:
            return _loaded(transaction)

    def _close(self) -> None:
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _delete(self) -> None:
        self._close()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._directory)


def _offsets(cluster: Cluster, partitions: Sequence[TopicPartition], which: int) -> dict[int, int]:
    found = list_offsets(cluster, dict.fromkeys(partitions, which), READ_COMMITTED)
    return {each.partition: found[each].offset for each in partitions}


def _is_ahead(state: dict[str, Any], ends: dict[int, int]) -> bool:
    positions = state.get("positions", {})
    return any(positions.get(str(number), 0) > end for number, end in ends.items())


def _loaded(transaction: Any) -> dict[str, Any]:
    held = transaction.get(_STATE)
    found: dict[str, Any] = {} if held is None else json.loads(held)
    return found


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()[:8]
    except OSError:
        return "0"
