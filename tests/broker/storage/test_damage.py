"""Damaged data gives the operator one sentence and never a traceback."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ottla.broker.lifecycle.server import StartupError
from ottla.log.config import LogDirectoryError
from ottla.log.files.meta_properties import (
    read_meta_properties,
    read_partition_metadata,
    write_meta_properties,
    write_partition_metadata,
)
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.faults.broker_cases import produce
from tests.wire_client import WireClient


def filled(data: Path, *topics: str) -> None:
    with Broker(data=data) as broker:
        for topic in topics:
            broker.create_topic(topic)
            for number in range(5):
                broker.produce(topic, b"%d" % number)


def test_a_value_of_another_type_in_the_metadata_is_no_bug_of_ottla(tmp_path: Path) -> None:
    filled(tmp_path, "t")
    with closing(sqlite3.connect(tmp_path / "ottla-metadata.db")) as store:
        store.execute("UPDATE node SET data = 'text' WHERE path = '/brokers/topics/t'")
        store.commit()
    with pytest.raises(StartupError, match=r"ottla-metadata\.db is damaged: the node '/brokers/topics/t'"):
        Broker(data=tmp_path).start()


def test_a_link_to_nowhere_in_place_of_a_partition_stops_only_that(tmp_path: Path) -> None:
    filled(tmp_path, "t", "u")
    shutil.rmtree(tmp_path / "t-0")
    (tmp_path / "t-0").symlink_to(tmp_path / "nowhere")
    with Broker(data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert produce(client, "t", b"lost")[0] is ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(client, "u", b"kept")[0] is ErrorCode.NONE


def test_a_partition_whose_directory_is_gone_does_not_start_empty(tmp_path: Path, caplog) -> None:
    filled(tmp_path, "t", "u")
    shutil.rmtree(tmp_path / "t-0")
    for _ in range(2):
        caplog.clear()
        with Broker(data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
            assert produce(client, "t", b"lost")[0] is ErrorCode.KAFKA_STORAGE_ERROR
            assert produce(client, "u", b"kept")[0] is ErrorCode.NONE
        assert "The logs of t-0 are missing" in caplog.text


def test_a_topic_of_the_same_name_starts_anew_after_a_deletion(tmp_path: Path) -> None:
    """Checkpoints must not refer to the deleted topic, or the new topic would look damaged after a kill."""
    killed = tmp_path / "killed"
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t")
        for number in range(50):
            broker.produce("t", b"%d" % number)
        broker.restart()
        broker.delete_topic("t")
        broker.create_topic("t")
        broker.produce("t", b"new")
        shutil.copytree(tmp_path / "data", killed, ignore=shutil.ignore_patterns(".lock"))
    (killed / ".ottla-live-ends").unlink()  # as after a power cut
    with Broker(data=killed) as broker:
        assert [record.value for record in broker.records("t")] == [b"new"]


def test_deleting_a_topic_while_it_is_flushed_is_no_error(tmp_path: Path, monkeypatch, caplog) -> None:
    """The flushing thread encounters deleted files."""
    caplog.set_level(logging.ERROR)
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        broker.produce("t", b"v")
        log = broker._running().broker.replicas.leader("t", 0).log
        sync = log.segments.sync

        def delete_meanwhile(start: int, end: int) -> None:
            broker.delete_topic("t")
            sync(start, end)

        monkeypatch.setattr(log.segments, "sync", delete_meanwhile, raising=False)
        PartitionLog.flush(log)
    assert "could not be flushed" not in caplog.text


def test_a_flipped_bit_in_the_identity_of_a_directory_is_noticed(tmp_path: Path) -> None:
    write_meta_properties(str(tmp_path), 7, "cluster")
    path = tmp_path / "meta.properties"
    whole = path.read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = read_meta_properties(str(tmp_path))
        except LogDirectoryError as error:
            assert "meta.properties" in str(error)  # noqa: PT017
        else:
            assert found is not None
            assert (found.broker_id, found.cluster_id) == (7, "cluster")


def test_a_flipped_bit_in_a_topic_id_is_noticed(tmp_path: Path) -> None:
    directory, topic_id = tmp_path / "t-0", bytes(range(16))
    directory.mkdir()
    write_partition_metadata(str(directory), topic_id)
    path = directory / "partition.metadata"
    whole = path.read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert read_partition_metadata(str(directory)) == topic_id
        except LogDirectoryError as error:
            assert "partition.metadata" in str(error)  # noqa: PT017
    path.write_bytes(whole)
    other = tmp_path / "u-0"
    directory.rename(other)
    with pytest.raises(LogDirectoryError, match="remove the file"):
        read_partition_metadata(str(other))


@pytest.mark.parametrize("clean", [True, False])
def test_the_documented_way_to_go_on_without_the_lost_records_works(tmp_path: Path, clean: bool) -> None:
    data = tmp_path / "data"
    with Broker(data=data) as broker:
        broker.create_topic("t")
        sizes = []
        for number in range(5):
            broker.produce("t", b"%d" % number)
            sizes.append((data / "t-0/00000000000000000000.log").stat().st_size)
        if not clean:
            shutil.copytree(data, tmp_path / "killed", ignore=shutil.ignore_patterns(".lock"))
    if not clean:
        data = tmp_path / "killed"
    os.truncate(data / "t-0/00000000000000000000.log", sizes[2] + 5)
    with Broker(data=data) as broker, WireClient(broker.bootstrap_servers) as client:
        assert produce(client, "t", b"refused")[0] is ErrorCode.KAFKA_STORAGE_ERROR
    os.truncate(data / "t-0/00000000000000000000.log", sizes[2])
    notes = (
        "t-0/ottla-segments",
        "t-0/ottla-damaged",
        ".ottla-live-ends",
        "recovery-point-offset-checkpoint",
    )
    for note in notes:
        (data / note).unlink(missing_ok=True)
    for more in range(2):
        with Broker(data=data) as broker:
            assert [record.value for record in broker.records("t")] == [b"0", b"1", b"2", *[b"more"] * more]
            broker.produce("t", b"more")
