from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.log.config import LogConfig, LogDirectoryError
from ottla.log.log_directory import LogDirectory, parse_directory_name
from ottla.protocol.errors import ErrorCode, KafkaError

from .batches import NOW, put, records_of

TOPIC_ID = bytes(range(16))


def opened(path, config=None) -> LogDirectory:
    directory = LogDirectory.open(path)
    directory.load_logs(lambda topic: config or LogConfig())
    return directory


def create(directory: LogDirectory, topic: str = "t", partition: int = 0):
    return directory.create_log(topic, partition, topic_id=TOPIC_ID, config=LogConfig())


def test_logs_come_back_after_a_clean_shutdown(tmp_path):
    directory = opened(tmp_path)
    for partition in range(5):
        log = create(directory, "my-topic", partition)
        for number in range(partition):
            put(log, b"%d" % number)
    directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    directory = opened(tmp_path)
    assert directory.clean_shutdown
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert sorted(directory.logs) == [("my-topic", partition) for partition in range(5)]
    for partition in range(5):
        log = directory.logs["my-topic", partition]
        assert (log.log_end_offset, log.topic_id) == (partition, TOPIC_ID)
        assert len(records_of(log)) == partition
    directory.abandon()


def test_logs_come_back_after_a_crash(tmp_path):
    directory = opened(tmp_path)
    put(create(directory), b"a")
    directory.checkpoint()
    put(directory.logs["t", 0], b"b")
    directory.abandon()
    directory = opened(tmp_path)
    assert not directory.clean_shutdown
    assert records_of(directory.logs["t", 0]) == [(0, b"a"), (1, b"b")]
    directory.abandon()


def test_a_directory_has_one_broker(tmp_path):
    directory = LogDirectory.open(tmp_path)
    with pytest.raises(LogDirectoryError, match="in use by another broker"):
        LogDirectory.open(tmp_path)
    code = f"from ottla.log.log_directory import LogDirectory; LogDirectory.open({str(tmp_path)!r})"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False)
    assert b"in use by another broker" in other.stderr
    directory.abandon()
    LogDirectory.open(tmp_path).abandon()


def test_what_cannot_be_a_directory_is_said_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(LogDirectoryError, match="cannot be used as a log directory"):
        LogDirectory.open(tmp_path / "file")
    with pytest.raises(LogDirectoryError, match="cannot be used as a log directory"):
        LogDirectory.open(tmp_path / "file" / "below")


def test_the_identity_is_written_once_and_checked_after_that(tmp_path):
    directory = LogDirectory.open(tmp_path)
    assert directory.meta is None
    directory.claim(1, "clusterA")
    directory.abandon()
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert {"broker.id=1", "version=0", "cluster.id=clusterA"} <= set(lines)
    directory = LogDirectory.open(tmp_path)
    directory.claim(1, "clusterA")
    with pytest.raises(LogDirectoryError, match="belongs to broker 1"):
        directory.claim(2, "clusterA")
    with pytest.raises(LogDirectoryError, match="belongs to the cluster clusterA"):
        directory.claim(1, "clusterB")
    directory.abandon()


def test_the_identity_of_a_kraft_broker_is_read(tmp_path):
    (tmp_path / "meta.properties").write_text("#\n#Sun\nnode.id=4\nversion=1\ncluster.id=X\ndirectory.id=Y\n")
    directory = LogDirectory.open(tmp_path)
    directory.claim(4, "X")
    directory.abandon()
    (tmp_path / "meta.properties").write_text("version=9\n")
    with pytest.raises(LogDirectoryError, match="version 9 of a newer broker"):
        LogDirectory.open(tmp_path)
    (tmp_path / "meta.properties").unlink()
    LogDirectory.open(tmp_path).abandon()


def test_a_deleted_log_leaves_at_once_and_its_files_later(tmp_path):
    directory = opened(tmp_path)
    put(create(directory, "x" * 249), b"old")
    create(directory, "other")
    directory.delete_log("x" * 249, 0)
    assert ("x" * 249, 0) not in directory.logs
    (doomed,) = tmp_path.glob("*-delete")
    assert put(create(directory, "x" * 249), b"new").first_offset == 0
    directory.remove_deleted(NOW)
    assert not doomed.exists()
    assert records_of(directory.logs["x" * 249, 0]) == [(0, b"new")]
    directory.abandon()


def test_a_deletion_that_a_crash_interrupted_is_finished(tmp_path):
    directory = opened(tmp_path)
    create(directory)
    directory.delete_log("t", 0)
    directory.abandon()
    directory = opened(tmp_path)
    assert not directory.logs
    directory.remove_deleted(NOW)
    assert not list(tmp_path.glob("*-delete"))
    directory.abandon()


def test_checkpoints_are_kafkas(tmp_path):
    directory = opened(tmp_path)
    log = create(directory)
    for _ in range(5):
        put(log)
    log.advance_log_start_offset(3)
    create(directory, "u", 1)
    directory.checkpoint_high_watermarks({("t", 0): 5, ("u", 1): 0})
    directory.close()
    for name, lines in {
        "recovery-point-offset-checkpoint": ["0", "2", "t 0 5", "u 1 0"],
        "log-start-offset-checkpoint": ["0", "1", "t 0 3"],
        "replication-offset-checkpoint": ["0", "2", "t 0 5", "u 1 0"],
    }.items():
        found = (tmp_path / name).read_text().splitlines()
        assert [line.rstrip(" \t") for line in found] == lines  # the checksum is white space to Kafka


def test_a_damaged_checkpoint_costs_a_recovery_and_nothing_else(tmp_path, caplog):
    directory = opened(tmp_path)
    put(create(directory), b"a")
    directory.close()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("nonsense")
    directory = opened(tmp_path)
    assert "recovery-point-offset-checkpoint" in caplog.text
    assert records_of(directory.logs["t", 0]) == [(0, b"a")]
    directory.abandon()


def test_a_corrupt_log_is_offline_by_name_and_the_others_are_served(tmp_path, caplog):
    directory = opened(tmp_path)
    for partition in range(3):
        for number in range(5):
            put(create(directory, "t", partition), b"%d" % number)
    directory.abandon()
    file = tmp_path / "t-1" / "00000000000000000000.log"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    for _ in range(2):  # a clean shutdown in between does not repair it
        directory = opened(tmp_path)
        assert sorted(directory.logs) == [("t", 0), ("t", 2)]
        assert str(file) in directory.offline_logs["t", 1]
        assert str(file) in caplog.text
        with pytest.raises(KafkaError) as error:
            create(directory, "t", 1)
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        caplog.clear()
        directory.close()
    assert file.read_bytes() == content


def test_foreign_directories_are_left_alone(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "t-0.abc-stray").mkdir()
    directory = opened(tmp_path)
    assert not directory.logs
    assert (tmp_path / "lost+found").exists()
    directory.abandon()


@pytest.mark.parametrize(
    ("name", "parsed"),
    [("a-0", ("a", 0)), ("a-b-12", ("a-b", 12)), ("a", None), ("-1", None), ("a-", None), ("a-x", None)],
)
def test_directory_names(name, parsed):
    assert parse_directory_name(name) == parsed


def test_a_flush_in_a_thread_while_the_owner_appends_and_rolls(tmp_path):
    directory = opened(tmp_path)
    log = directory.create_log("t", 0, topic_id=TOPIC_ID, config=LogConfig(segment_bytes=2000))
    done = threading.Event()

    def flush() -> None:
        while not done.is_set():
            log.flush()

    thread = threading.Thread(target=flush)
    thread.start()
    for number in range(300):
        put(log, b"%d" % number, b"x" * 100, epoch=number // 50)
        if number % 100 == 99:
            log.advance_log_start_offset(log.log_end_offset - 50)
    done.set()
    thread.join()
    log.flush()
    assert log.recovery_point == 600
    directory.close()


def test_closing_a_directory_that_was_never_loaded_keeps_its_checkpoints(tmp_path):
    directory = opened(tmp_path)
    put(create(directory), b"a", b"b")
    directory.logs["t", 0].advance_log_start_offset(1)
    directory.close()
    LogDirectory.open(tmp_path).close()
    directory = opened(tmp_path)
    assert directory.clean_shutdown
    assert directory.logs["t", 0].log_start_offset == 1
    directory.abandon()


@pytest.mark.parametrize(
    ("mark", "left"), [(b'{"version":0,"brokerEpoch":31}', True), (b"", False), (None, False)]
)
def test_who_stopped_here_last_is_known(tmp_path, mark, left):
    (tmp_path / "meta.properties").write_bytes(b"broker.id=0\nversion=0\ncluster.id=c\n")
    directory = opened(tmp_path)
    assert directory.left_by_kafka  # Ottla has never used it
    create(directory)
    directory.close()
    directory = LogDirectory.open(tmp_path)
    assert not directory.left_by_kafka
    directory.abandon()
    clean = tmp_path / ".kafka_cleanshutdown"
    clean.unlink()
    if mark is not None:
        clean.write_bytes(mark)
    directory = LogDirectory.open(tmp_path)
    assert (directory.left_by_kafka, directory.clean_shutdown) == (left, mark is not None)
    directory.abandon()


def test_a_log_that_is_set_aside_is_neither_served_nor_deleted(tmp_path):
    directory = opened(tmp_path)
    put(create(directory), b"dear")
    path = Path(directory.mark_stray("t", 0))
    assert directory.logs == {}
    directory.remove_deleted(0)
    directory.close()
    assert path.name.startswith("t-0.")
    assert path.name.endswith("-stray")
    directory = opened(tmp_path)
    assert directory.logs == {}
    assert (path / "00000000000000000000.log").stat().st_size > 0
    directory.abandon()
