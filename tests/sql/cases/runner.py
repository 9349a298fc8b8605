"""Run a case with its own broker and SQL session, on a shared Spark."""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ottla.spark import register
from ottla.sql import SqlError, SqlSession
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import statements
from ottla.sql.registered.formats import REGISTERED
from ottla.sql.sources import Source
from ottla.sql.sql_types import SqlType
from ottla.testing import Broker
from tests.sql.cases.case import Case, In, Out, Way
from tests.sql.cases.registered.codec import RegistryCodec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.protocol.records import Record

Found = tuple[Any, Any, int, tuple[int, int] | None]  # key, value, time and window


@contextmanager
def _session(spark: SparkSession, case: Case) -> Iterator[tuple[SqlSession, Broker]]:
    with (
        Broker(registry=case.registry) as broker,
        TemporaryDirectory(prefix="ottla-case-") as folder,
    ):
        # A separate session, because views and settings belong to the session.
        own = spark.newSession()
        register(own)
        session = SqlSession(
            own,
            bootstrap_servers=broker.bootstrap_servers,
            checkpoints=str(Path(folder) / "c"),
            functions=case.functions,
            schema_registry=_as_somebody(broker.schema_registry_url) if case.registry else None,
        )
        for each in case.schemas:
            RegistryCodec(broker.schema_registry_url).register(each.subject, each.text, each.kind)
        session.execute("SET 'auto.offset.reset' = 'earliest';")
        try:
            yield session, broker
        finally:
            session.stop()


def _as_somebody(url: str) -> str:
    """Use a unique user. Processes cache schema ids forever, but another case's registry may reuse the port."""
    return url.replace("//", f"//{uuid.uuid4().hex}@")


def run(spark: SparkSession, case: Case, way: Way) -> None:
    """Run a case. Raises AssertionError if it fails. Threads may run several at once."""
    for attempt in range(5):
        try:
            _run(spark, case, way)
        except Exception as error:
            # Spark waits ten seconds for a worker to start, which may not be enough on a busy machine.
            if "failed to connect back" not in str(error) or attempt == 4:
                raise
        else:
            return


def _run(spark: SparkSession, case: Case, way: Way) -> None:
    with _session(spark, case) as (session, broker):
        if case.refused is not None:
            _refused(session, case)
            return
        running = _Run(session, broker, case, way)
        if case.fails is not None:
            running.fail(case.fails)
            return
        running.process()
        running.compare()
        for subject, part in case.registers:
            latest = RegistryCodec(broker.schema_registry_url).registry.latest(subject)
            assert part in latest.text, latest.text


def records_of(spark: SparkSession, case: Case, way: Way, topic: str) -> list[Found]:
    """Return the records of a topic after a case has run."""
    with _session(spark, case) as (session, broker):
        running = _Run(session, broker, case, way)
        running.process()
        return running.found(topic)


def _refused(session: SqlSession, case: Case) -> None:
    try:
        session.execute(case.statements)
        said = "nothing: it is not refused"
    except SqlError as error:
        said = str(error)
    assert case.refused is not None
    assert case.refused in said, said


class _Run:
    def __init__(self, session: SqlSession, broker: Broker, case: Case, way: Way) -> None:
        self._session = session
        self._broker = broker
        self._case = case
        self._way = way
        self._codec = RegistryCodec(broker.schema_registry_url) if case.registry else None

    def process(self) -> None:
        if self._way == "record by record":
            self._session.execute(self._case.statements)
            self._settle()
            for each in self._case.inputs:
                self._do(each)
                self._settle()
        else:
            # All records up to the first statement among them exist before the first query starts.
            waiting = list(self._case.inputs)
            types = self._session.catalogue.find_type
            for statement in statements(self._case.statements, {}, types):
                if isinstance(statement, s.CreateAsSelect | s.InsertSelect):
                    while waiting and isinstance(waiting[0], In):
                        self._do(waiting.pop(0))
                self._session.execute(statement.text)
            for each in waiting:
                if isinstance(each, str):
                    self._settle()
                self._do(each)
            self._settle()

    def fail(self, part: str) -> None:
        try:
            self.process()
            said = "nothing: the query goes on"
        except Exception as error:
            said = str(error)
        assert part in said, said

    def _do(self, each: In | str) -> None:
        if isinstance(each, str):
            self._session.execute(each)
            return
        source = self._source(each.topic)
        key = None if source is None else source.keys
        values = None if source is None else source.values
        written = (
            self._registered(each, "key", source and source.key_format)
            or _written(each.key, source and source.key_format, key or (), len(key or ()) == 1),
            self._registered(each, "value", source and source.value_format)
            or _written(each.value, source and source.value_format, values or (), False),
        )
        self._broker.produce(
            each.topic,
            written[1],
            key=written[0],
            timestamp=each.ts,
            headers=each.headers,
            partition=each.partition,
        )

    def _registered(self, each: In, part: str, form: str | None) -> bytes | None:
        value = each.key if part == "key" else each.value
        if self._codec is None or form not in REGISTERED or value is None or isinstance(value, bytes):
            return None
        return self._codec.encode(f"{each.topic}-{part}", value, each.version if part == "value" else None)

    def _settle(self) -> None:
        """Wait until all queries have processed their input, in the order of their dependencies."""
        for running in self._session.queries.all():
            if running.query is None or running.is_paused:
                continue
            if running.query.isActive:
                running.query.processAllAvailable()
            failure = running.query.exception()
            assert failure is None, str(failure)[:800]

    def _source(self, topic: str) -> Source | None:
        found = [each for each in self._session.catalogue.all() if each.topic == topic]
        return found[-1] if found else None

    # Results

    def compare(self) -> None:
        expected: dict[str, list[Out]] = defaultdict(list)
        for out in self._case.outputs:
            expected[out.topic].append(out)
        if not expected:
            sink = self._session.queries.all()[-1].sink
            expected[self._session.catalogue.find(sink).topic] = []
        for topic, outs in expected.items():
            source = self._source(topic)
            found = self.found(topic)
            wanted = [(out.key, out.value, out.ts, out.window) for out in outs]
            if self._way == "all at once":
                found, wanted = _in_any_order(found, source), _in_any_order(wanted, source)
            shown = "\n".join(["", f"{topic} has", *map(repr, found), "and should have", *map(repr, wanted)])
            assert len(found) == len(wanted), shown
            assert all(map(_same, found, wanted)), shown

    def found(self, topic: str) -> list[Found]:
        facts = self._session.brokers.topic(topic)
        assert facts is not None, f"there is no topic {topic}"
        source = self._source(topic)
        return [
            _read(record, source, self._codec)
            for partition in range(facts.partitions)
            for record in self._broker.records(topic, partition)
        ]


def _in_any_order(found: list[Any], source: Source | None) -> list[Any]:
    """Sort by key: all records of a stream, and the last undeleted record per key of a table."""
    by_key: dict[str, list[Any]] = defaultdict(list)
    for each in found:
        by_key[repr((each[0], each[3]))].append(each)
    if source is not None and source.kind == "TABLE":
        by_key = {key: each[-1:] for key, each in by_key.items() if each[-1][1] is not None}
    return [each for key in sorted(by_key) for each in by_key[key]]


def _same(found: Any, wanted: Any) -> bool:
    key, value, time, window = wanted
    return (
        equal(found[0], key)
        and equal(found[1], value)
        and (time is None or found[2] == time)
        and found[3] == window
    )


def equal(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float | int):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12) or (
            found != found and wanted != wanted
        )
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() == wanted.keys() and all(equal(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(equal, found, wanted))
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


# Records


_NUMBERS = {"INTEGER": ">i", "BIGINT": ">q", "DOUBLE": ">d"}


def _written(
    value: Any, form: str | None, columns: tuple[s.ColumnDefinition, ...], bare: bool
) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if form == "KAFKA" and columns and columns[0].type.name in _NUMBERS and not isinstance(value, str):
        return struct.pack(_NUMBERS[columns[0].type.name], value)
    if form in ("KAFKA", "DELIMITED", "NONE") or (form is None and isinstance(value, str)):
        return str(value).encode()
    return json.dumps(value, ensure_ascii=False).encode()


def _read(record: Record, source: Source | None, codec: RegistryCodec | None) -> Found:
    key, window = _split(None if record.key is None else bytes(record.key), source)
    value = None if record.value is None else bytes(record.value)
    if source is None:
        return key, value, record.timestamp, window
    return (
        _value(key, source.key_format, source.keys, codec),
        _value(value, source.value_format, source.values, codec),
        record.timestamp,
        window,
    )


def _split(key: bytes | None, source: Source | None) -> tuple[bytes | None, tuple[int, int] | None]:
    """Split a windowed key in Kafka Streams' format: the start follows the key; for a session the end and the start."""
    if key is None or source is None or source.window is None:
        return key, None
    start = int.from_bytes(key[-8:], "big", signed=True)
    if source.window == "SESSION":
        return key[:-16], (start, int.from_bytes(key[-16:-8], "big", signed=True))
    return key[:-8], (start, start + (source.window_size_ms or 0))


def _value(
    data: bytes | None, form: str, columns: tuple[s.ColumnDefinition, ...], codec: RegistryCodec | None
) -> Any:
    if data is None:
        return None
    if form in REGISTERED and codec is not None:
        return codec.decode(data)
    if form == "JSON":
        return json.loads(data)
    if form == "KAFKA" and columns:
        return _kafka(data, columns[0].type)
    return data.decode() if form == "DELIMITED" else data


def _kafka(data: bytes, kind: SqlType) -> Any:
    if kind.name in _NUMBERS:
        return struct.unpack(_NUMBERS[kind.name], data)[0]
    return data if kind.name == "BYTES" else data.decode()


@contextmanager
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of all cases: each batch holds a few records, and one task is enough."""
    settings = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.pollingDelay": "2ms"}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        if old is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, old)
