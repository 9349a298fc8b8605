"""Queries resume from checkpoints of earlier Ottla versions as if nothing had changed."""

from __future__ import annotations

import datetime
import json
import pickle
import shutil
import tarfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("sqlglot")
pytest.importorskip("lmdb")

from ottla.spark.state import StateError, StatePlace, open_state
from ottla.spark.state.places import LOCAL_DIRECTORY
from ottla.spark.state.value_codec import decode, encode
from ottla.sql.stateful import format_1
from ottla.sql.stateful.aggregation import AggregateOperator, Layout, TableRowsOperator
from ottla.sql.stateful.format_1 import upgraded
from ottla.sql.stateful.grouped import Aggregation, key_of
from ottla.sql.stateful.joins.chain import JoinChain
from ottla.sql.stateful.joins.foreign_key import ForeignKeyJoin, ForeignKeys, InOrder
from ottla.sql.stateful.joins.sides import Sides
from ottla.sql.stateful.records import Operator
from ottla.testing import Broker
from tests.sql.upgrades.scenario import FUNCTIONS, SINKS, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT_1 = Path(__file__).with_name("state-format-1.tar.xz")
GROUPS = AggregateOperator("groups", Layout(0, (), False, ()), Aggregation(()))
OPERATORS: dict[str, list[Operator]] = {
    "CTAS_WINDOWED_5": [GROUPS],
    "CTAS_SESSIONS_6": [GROUPS],
    "CTAS_MANY_7": [GROUPS],
    "CTAS_SPREAD_8": [GROUPS],
    "CTAS_INHABITANTS_9": [TableRowsOperator("rows", GROUPS.layout), GROUPS],
    "CTAS_BOTH_10": [JoinChain("join-1", 1, ())],
    "CTAS_LIVING_11": [
        ForeignKeys("left-rows"),
        ForeignKeyJoin("join-1", Sides(1, 2), True, (0,)),
        InOrder("results"),
    ],
    "CSAS_NAMED_12": [JoinChain("join-1", 1, ())],
    "CSAS_SETTLED_13": [JoinChain("join-1", 1, ())],
}
STAGES = [(query, operator) for query, operators in OPERATORS.items() for operator in operators]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("format-1")
    with tarfile.open(FORMAT_1) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture
def checkpoints(unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the checkpoints of all queries."""
    monkeypatch.setenv(LOCAL_DIRECTORY, str(tmp_path / "local"))
    shutil.copytree(unpacked, tmp_path / "held")
    [cluster] = (tmp_path / "held" / "checkpoints").iterdir()
    return cluster


@pytest.fixture
def on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    names = (str(tmp_path / f"machine-{number}") for number in range(10))
    return lambda: monkeypatch.setenv(LOCAL_DIRECTORY, next(names))


class Stage:
    """The state of one operator, after the last batch of the old version."""

    def __init__(self, checkpoints: Path, query: str, operator: Operator) -> None:
        self.place = StatePlace(str(checkpoints / query), query, operator.name, 0)
        self.folder = checkpoints / query / "ottla-state" / operator.name / "0"
        self.batch = 1 + max(int(each.name[13:25]) for each in self.folder.glob("*.delta"))
        self._operator = operator

    def batches(self, count: int) -> Iterator[dict[bytes, bytes]]:
        for batch in range(self.batch, self.batch + count):
            with open_state(self.place, batch, upgrade=partial(upgraded, self._operator)) as state:
                found = dict(state.scan())
                state.put(b"zz", b"%d" % batch)
                state.commit()
            yield found


@pytest.mark.parametrize(("query", "operator"), STAGES, ids=lambda each: getattr(each, "name", each))
def test_state_of_format_1_is_rewritten(
    checkpoints: Path, on_another_machine: Callable[[], None], query: str, operator: Operator
) -> None:
    stage = Stage(checkpoints, query, operator)
    [first] = stage.batches(1)
    assert first or operator.name == "results"
    # A repeated batch sees the same state, here and on another machine; so does the next one.
    assert list(stage.batches(2)) == [first, first | {b"zz": b"%d" % stage.batch}]
    on_another_machine()
    after_move, *_ = stage.batches(20)
    assert after_move == first
    assert sorted(each.suffix for each in stage.folder.iterdir() if int(each.name[:12]) < stage.batch) == []
    for key, value in first.items():
        assert not value.startswith(b"\x80"), "a pickle is left"
        if value not in (b"", b"\x01"):
            decode(value)
        if operator is GROUPS and key[:1] in (b"g", b"s"):
            assert key[1:].startswith(key_of(decode(value)[0]))
        if operator is GROUPS and key[:1] == b"e":
            assert key[9:] in first, "the end of a window names a group that does not exist"


class Killed(Exception):
    pass


def test_a_kill_between_the_upgraded_batch_and_its_snapshot_loses_nothing(
    checkpoints: Path, on_another_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of both formats then follow each other."""
    stage = Stage(checkpoints, "CTAS_MANY_7", GROUPS)
    with open_state(stage.place, stage.batch, upgrade=partial(upgraded, GROUPS)) as state:
        expected = dict(state.scan())  # without a commit

    on_another_machine()

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("ottla.spark.state.history.History.snapshot", killed)
        with pytest.raises(Killed):
            next(stage.batches(1))
    assert not list(stage.folder.glob("*.snapshot"))
    on_another_machine()
    stage.batch += 1
    found = list(stage.batches(20))
    assert found[0] == expected | {b"zz": b"%d" % (stage.batch - 1)}
    assert found[-1] == expected | {b"zz": b"%d" % (stage.batch + 18)}
    assert list(stage.folder.glob("*.snapshot"))


def test_values_that_aggregates_in_python_kept_become_plain_ones() -> None:
    np = pytest.importorskip("numpy")
    kept = {
        "numbers": [np.float64(1.5), np.int64(-3), np.bool_(True), Decimal("1.50"), 1 << 70],
        "times": (
            datetime.date(2026, 1, 2),
            datetime.datetime(2026, 1, 2, 3, tzinfo=ZoneInfo("UTC")),
            datetime.time(4),
        ),
        "others": (Counter("aab"), deque([1], 2), {1, 2}, frozenset({3}), bytearray(b"x")),
    }
    found = format_1._unpickled(pickle.dumps(kept, protocol=5))
    assert found == kept
    assert [type(each) for each in found["numbers"]] == [float, int, bool, Decimal, int]
    assert decode(encode(found))["times"] == kept["times"]


def test_a_pickle_that_names_another_class_is_refused_and_not_run(checkpoints: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"an object of class os\.system"):
        format_1._unpickled(b"cos\nsystem\n(S'touch %s'\ntR." % str(tmp_path / "ran").encode())
    assert not (tmp_path / "ran").exists()


def test_damage_in_a_file_of_format_1_refuses_the_query_by_the_name_of_the_file(checkpoints: Path) -> None:
    stage = Stage(checkpoints, "CTAS_MANY_7", GROUPS)
    file = sorted(stage.folder.glob("*.delta"))[0]
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(StateError, match=f"{file} is damaged"):
        next(stage.batches(1))


def last_of_each(records: list[list[Any]]) -> dict[str, Any]:
    return {key: (value, at) for key, value, at in records}


@pytest.mark.slow
def test_queries_go_on_from_a_checkpoint_of_format_1(
    spark: SparkSession, fresh_ottla_broker: Broker, checkpoints: Path
) -> None:
    from ottla.sql import SqlSession

    expected = json.loads((checkpoints.parent.parent / "expected.json").read_text())
    session = SqlSession(
        spark,
        bootstrap_servers=fresh_ottla_broker.bootstrap_servers,
        checkpoints=str(checkpoints.parent),
        functions=FUNCTIONS,
    )
    checkpoints.rename(checkpoints.with_name(session.brokers.cluster_id()))
    run = Run(session, fresh_ottla_broker)
    try:
        for topic in ("orders", "payments", "people", "accounts", "towns"):
            fresh_ottla_broker.create_topic(topic)
        for part in range(3):
            run.produce(part)
        run.execute(resume=True)
    finally:
        session.stop()
    for sink in SINKS:
        found = run.found(sink)
        if sink in ("NAMED", "SETTLED"):
            assert sorted(map(str, found)) == sorted(map(str, expected[sink])), sink
        else:
            assert last_of_each(found) == last_of_each(expected[sink]), sink
