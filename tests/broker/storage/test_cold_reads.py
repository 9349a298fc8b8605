"""Promise: a client that reads uncached records waits for the disk, and no other client does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.network import send_queue
from ottla.log import cold_reads
from ottla.log.files import descriptors as page_cache
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, FindCoordinatorRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.share_groups import ShareGroupDescribeRequest
from ottla.testing import Broker
from tests.broker.apis.test_new_group_apis import Share
from tests.wire_client import WireClient

RECORDS = 40
SMALL, LARGE = 500, 60_000


class SlowDisk:
    """Blocks reads in threads until `release`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Event()
        self._released = threading.Event()
        for module in (send_queue, cold_reads):
            monkeypatch.setattr(module, "read_through", self._read)

    def _read(self, fd: int, position: int, size: int) -> None:
        self.asked.set()
        assert threading.current_thread().name != "ottla-broker", "the event loop waits for the disk"
        assert self._released.wait(30)
        page_cache.read_through(fd, position, size)

    def release(self) -> None:
        self._released.set()


def evict(directory: Path) -> bool:
    """Evict the segments from the page cache. Return False if the file system keeps them there."""
    gone = True
    for path in directory.glob("*.log"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        gone &= path.stat().st_size == 0 or not page_cache.is_in_memory(fd, 0, path.stat().st_size)
        os.close(fd)
    return gone


def fetch_request(offset: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)


def read_while_others_talk(broker: Broker, disk: SlowDisk) -> bytes:
    """Return the result of a fetch whose disk is stuck until another client has received fifty responses."""
    with WireClient(broker.bootstrap_servers) as reader, WireClient(broker.bootstrap_servers) as other:
        request = fetch_request()
        reader.send(request, 12)
        assert disk.asked.wait(10)
        for _ in range(50):
            other.call(ApiVersionsRequest())
        disk.release()
        return bytes(reader.receive(request, 12).responses[0].partitions[0].records)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_fetch_of_evicted_pages_does_not_hold_up_others(tmp_path, monkeypatch, size):
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        for _ in range(RECORDS):
            broker.produce("t", b"x" * size)
        if not evict(tmp_path / "t-0"):
            pytest.skip("this file system does not let go of pages, or does not say so")
        disk = SlowDisk(monkeypatch)
        data = read_while_others_talk(broker, disk)
    stored = (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
    assert data == stored[: len(data)]
    assert len(data) > 10 * size


def cold_look(patch: pytest.MonkeyPatch) -> int:
    """The index lookup misses the page cache."""
    patch.setattr(cold_reads, "is_in_memory", lambda *_: False)
    return SMALL


def cold_send(patch: pytest.MonkeyPatch) -> int:
    """The index is cached and the records are not."""
    patch.setattr(send_queue, "is_in_memory", lambda *_: False)
    return LARGE


def cold_small(patch: pytest.MonkeyPatch) -> int:
    patch.setattr(send_queue, "read_now", lambda *_: None)
    return SMALL // 5


@pytest.mark.parametrize("look", [cold_look, cold_send, cold_small])
def test_neither_looking_up_nor_sending_waits_on_the_event_loop(
    tmp_path, monkeypatch, look: Callable[[pytest.MonkeyPatch], int]
):
    size = look(monkeypatch)
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        for _ in range(RECORDS):
            broker.produce("t", b"x" * size)
        data = read_while_others_talk(broker, SlowDisk(monkeypatch))
    stored = (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
    assert data == stored[: len(data)]


def test_the_first_read_after_a_restart_finds_its_place_in_a_thread(tmp_path, monkeypatch):
    config = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "4096"}
    with Broker(config=config, data=tmp_path) as broker:
        broker.create_topic("t")
        for _ in range(RECORDS):
            broker.produce("t", b"x" * LARGE)
    with Broker(config=config, data=tmp_path) as broker:
        data = read_while_others_talk(broker, SlowDisk(monkeypatch))
    assert len(data) > LARGE


def test_readers_of_the_tail_never_ask(tmp_path, monkeypatch):
    def fail(*_: object) -> bool:
        raise AssertionError("a probe")

    with Broker(data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t")
        monkeypatch.setattr(cold_reads, "is_in_memory", fail)
        for offset in range(5):
            broker.produce("t", b"x")
            [topic] = client.call(fetch_request(offset), 12).responses
            assert topic.partitions[0].records


def share_member(client: WireClient) -> Share:
    """Return a member of the share group g, after creating its coordinator's topic."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    found: Any = client.call(find)
    while found.coordinators[0].error_code:
        found = client.call(find)
    return Share(client.call)


def test_a_share_fetch_of_cold_records_does_not_hold_up_others(tmp_path, monkeypatch):
    with (
        Broker(data=tmp_path) as broker,
        WireClient(broker.bootstrap_servers) as member,
        WireClient(broker.bootstrap_servers) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        broker.create_topic("t")
        share = share_member(member)
        assert share.acquired() == [], "the group begins at the end of the log"
        for _ in range(RECORDS):
            broker.produce("t", b"x" * SMALL)
        cold_look(monkeypatch)
        disk = SlowDisk(monkeypatch)
        fetched = thread.submit(share.fetch, max_wait_ms=20_000)
        assert disk.asked.wait(10)
        for _ in range(50):
            other.call(ApiVersionsRequest())
        disk.release()
        [topic] = fetched.result(30).responses
    [partition] = topic.partitions
    assert bytes(partition.records) == (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
    [acquired] = partition.acquired_records
    assert (acquired.first_offset, acquired.last_offset) == (0, RECORDS - 1)


def test_a_coordinator_reads_its_state_without_waiting_on_the_event_loop(tmp_path, monkeypatch):
    with Broker(data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t")
        share_member(client)
    cold_look(monkeypatch)
    disk = SlowDisk(monkeypatch)
    disk.release()  # reads on the event loop fail there
    with Broker(data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        answer: Any = client.call(ShareGroupDescribeRequest(group_ids=["g"]))
        while answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = client.call(ShareGroupDescribeRequest(group_ids=["g"]))
    assert disk.asked.is_set()
    assert [(each.group_id, each.error_code) for each in answer.groups] == [("g", ErrorCode.NONE)]
