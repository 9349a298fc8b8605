"""Restarts, changed settings, and a store that fails: nothing is lost, and clients are not disturbed."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from ottla.broker.lifecycle.server import StartupError
from ottla.testing import Broker
from tests.broker.storage.test_log_dir_moves import move, places
from tests.wire_client import WireClient

from .conftest import TOPIC_CONFIG, eventually, log_of, tiered_config
from .test_tiering import COUNT, consume, fetch, filled, list_offset, only_active_is_local

EXPECTED = [(number, b"value %d" % number) for number in range(COUNT)]
STORAGE_ERROR = 56


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return tmp_path / "remote"


def test_a_restart_changes_nothing(tmp_path: Path, remote: Path) -> None:
    config = tiered_config(remote)
    with Broker(data=tmp_path / "data", config=config) as broker:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        local = log_of(broker, topic).local_start_offset
        objects = sorted(remote.rglob("*"))
    with Broker(data=tmp_path / "data", config=config) as broker:
        log = log_of(broker, topic)
        assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (0, local, COUNT)
        assert consume(broker, topic, COUNT) == EXPECTED
        eventually(lambda: log.copied_upto == local)
        assert sorted(remote.rglob("*")) == objects  # nothing is copied twice


def test_deleted_records_do_not_return_after_a_restart(tmp_path: Path, remote: Path) -> None:
    config = tiered_config(remote)
    with Broker(data=tmp_path / "data", config=config) as broker:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        broker._run(_delete(broker, topic, 100))
    with (
        Broker(data=tmp_path / "data", config=config) as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        assert list_offset(client, topic, -2)[0] == 100
        assert fetch(client, topic, 99).error_code == 1
        assert consume(broker, topic, COUNT - 100, offset=100) == EXPECTED[100:]


async def _delete(broker: Broker, topic: str, offset: int) -> None:
    broker._server.broker.replicas.leader(topic, 0).delete_records(offset)


def test_the_system_is_not_disabled_while_topics_need_it(tmp_path: Path, remote: Path) -> None:
    with Broker(data=tmp_path / "data", config=tiered_config(remote)) as broker:
        broker.create_topic("t", 1, TOPIC_CONFIG)
    with (
        pytest.raises(StartupError, match="You have to delete all topics with the property"),
        Broker(data=tmp_path / "data"),
    ):
        pass


def test_the_system_needs_a_store(tmp_path: Path) -> None:
    config = {"remote.log.storage.system.enable": "true"}
    with pytest.raises(StartupError, match=r"needs ottla\.remote\.storage\.uri"), Broker(config=config):
        pass
    config["ottla.remote.storage.uri"] = "nowhere"
    with pytest.raises(StartupError, match="does not name a directory"), Broker(config=config):
        pass


def test_a_store_that_is_down_disturbs_nobody(remote: Path, caplog: pytest.LogCaptureFixture) -> None:
    remote.write_text("a file in the way")  # the store refuses everything
    with (
        caplog.at_level(logging.INFO),
        Broker(config=tiered_config(remote)) as broker,
    ):
        topic = filled(broker)
        lines = lambda: [each.getMessage() for each in caplog.records if topic in each.getMessage()]  # noqa: E731
        eventually(lambda: any("The copy of" in line for line in lines()))
        log = log_of(broker, topic)
        assert log.local_start_offset == 0  # nothing is deleted that was not copied
        assert consume(broker, topic, COUNT) == EXPECTED
        failures = [line for line in lines() if "failed and will be tried again" in line]
        assert len(set(failures)) == len(failures) <= 3
        remote.unlink()
        eventually(lambda: only_active_is_local(broker, topic))
        assert any("works again" in line for line in lines())
        assert consume(broker, topic, COUNT) == EXPECTED


def test_records_in_a_lost_store_do_not_disturb_local_ones(remote: Path) -> None:
    with Broker(config=tiered_config(remote)) as broker:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        away = remote.rename(remote.with_name("away"))
        broker.restart()  # without a cache
        local = log_of(broker, topic).local_start_offset
        with WireClient(broker.bootstrap_servers) as client:
            assert fetch(client, topic, 0).error_code == STORAGE_ERROR
            broker.produce(topic, b"one more")
            assert list_offset(client, topic, -1)[0] == COUNT + 1
        assert consume(broker, topic, COUNT - local, offset=local)[: COUNT - local] == EXPECTED[local:]
        shutil.rmtree(remote, ignore_errors=True)
        away.rename(remote)
        assert consume(broker, topic, COUNT + 1)[:COUNT] == EXPECTED


def test_a_damaged_object_is_not_served(tmp_path: Path, remote: Path) -> None:
    with Broker(config=tiered_config(remote)) as broker, WireClient(broker.bootstrap_servers) as client:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        first = min(remote.glob(f"{topic}-*/0/*.log"))
        good = first.read_bytes()
        first.write_bytes(good[:80] + b"\xff" + good[81:])
        assert fetch(client, topic, 0).error_code == STORAGE_ERROR
        first.write_bytes(good)
        assert consume(broker, topic, COUNT) == EXPECTED


def test_a_damaged_local_segment_is_not_copied(tmp_path: Path, remote: Path) -> None:
    remote.write_text("in the way")
    with Broker(config=tiered_config(remote)) as broker:
        topic = filled(broker)
        log = log_of(broker, topic)
        path = Path(log.segments[1].path)
        good = path.read_bytes()
        path.write_bytes(good[:80] + bytes([good[80] ^ 1]) + good[81:])
        remote.unlink()
        eventually(lambda: log.copied_upto == log.segments[0].base_offset == int(path.stem))
        assert not [each for each in remote.rglob("*.log") if int(each.name[:20]) >= int(path.stem)]
        path.write_bytes(good)
        eventually(lambda: only_active_is_local(broker, topic))


def alter(broker: Broker, topic: str, **config: str) -> None:
    admin = broker._server.broker.topic_admin
    broker._run(admin.alter_topic_configs(topic, lambda before: {**before, **config}))


def test_disabling_with_deletion_leaves_only_local_records(remote: Path) -> None:
    with Broker(config=tiered_config(remote)) as broker, WireClient(broker.bootstrap_servers) as client:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        local = log_of(broker, topic).local_start_offset
        alter(
            broker,
            topic,
            **{
                "remote.storage.enable": "false",
                "remote.log.delete.on.disable": "true",
                "local.retention.bytes": "-2",
            },
        )
        eventually(lambda: list_offset(client, topic, -2)[0] == local)
        eventually(lambda: not list(remote.glob(f"{topic}-*/0/*")))
        assert consume(broker, topic, COUNT - local, offset=local) == EXPECTED[local:]


def test_without_copies_remote_records_are_still_read(remote: Path) -> None:
    with Broker(config=tiered_config(remote)) as broker:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        alter(broker, topic, **{"remote.log.copy.disable": "true", "local.retention.bytes": "-2"})
        log = log_of(broker, topic)
        eventually(lambda: not log.config.copies_segments)
        copied = log.copied_upto
        for number in range(COUNT, COUNT + 100):
            broker.produce(topic, b"value %d" % number)
        more = [(number, b"value %d" % number) for number in range(COUNT, COUNT + 100)]
        assert consume(broker, topic, COUNT + 100) == EXPECTED + more
        assert log.copied_upto == copied


def test_a_tiered_log_moves_to_another_disk(tmp_path: Path, remote: Path) -> None:
    disks = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    with (
        Broker(config=tiered_config(remote) | disks, data=tmp_path / "a") as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        local = log_of(broker, topic).local_start_offset
        [here] = places(client, topic)
        there = tmp_path / ("b" if here == "a" else "a")
        assert not move(client, there, topic)
        eventually(lambda: places(client, topic) == {there.name: False})
        log = log_of(broker, topic)
        assert log.path.parent == there
        assert (log.log_start_offset, log.local_start_offset) == (0, local)
        assert consume(broker, topic, COUNT) == EXPECTED
        broker.restart()
        assert log_of(broker, topic).log_start_offset == 0
        assert consume(broker, topic, COUNT) == EXPECTED


def test_a_log_start_that_was_not_noted_is_found_again(tmp_path: Path, remote: Path) -> None:
    config = tiered_config(remote)
    with Broker(data=tmp_path / "data", config=config) as broker:
        topic = filled(broker)
        eventually(lambda: only_active_is_local(broker, topic))
        broker._run(_delete(broker, topic, 100))
    (tmp_path / "data" / "log-start-offset-checkpoint").unlink()
    with Broker(data=tmp_path / "data", config=config) as broker:
        assert log_of(broker, topic).log_start_offset == 100
        assert consume(broker, topic, COUNT - 100, offset=100) == EXPECTED[100:]
