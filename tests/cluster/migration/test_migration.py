"""Promise: an operator can replace Apache Kafka 3.9 with Ottla, and go back, without losing anything."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import ResourceType

from bench.peers.apache_kafka import (
    PRODUCER_PERFORMANCE,
    ZOOKEEPER_VERSION,
    Unavailable,
    kafka_jars,
    run_tool,
)
from tests.cluster.migration.client_state import CODECS, RECORDS, ClientState, delivered, quiet
from tests.cluster.migration.migrating_cluster import MigratingCluster
from tests.installed import kafka_tool

pytestmark = [pytest.mark.cluster, pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(480)]

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "6000",
    "controlled.shutdown.retry.backoff.ms": "300",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "8388608",
    # Smaller than Kafka 4 allows.
    "log.segment.bytes": "200000",
    # A setting that Ottla ignores, and an unknown setting
    "inter.broker.protocol.version": "3.9",
    "acme.reporter.address": "monitoring:1234",
}


@pytest.fixture(scope="module", autouse=True)
def kafka_is_there() -> None:
    try:
        kafka_jars(ZOOKEEPER_VERSION)
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MigratingCluster]:
    with MigratingCluster(tmp_path / "cluster", SETTINGS) as made:
        yield made


def until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.1)


def create_everything(things: ClientState) -> None:
    """Create the data that exists before the first move."""
    things.create("codecs", len(CODECS), segment_bytes="100000")
    things.create("steady")
    things.create("accounts")
    things.create("open")
    things.create("trimmed")
    things.create(
        "compacted",
        cleanup_policy="compact",
        segment_bytes="50000",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="100",
        max_compaction_lag_ms="2000",
    )
    things.create("old", message_format_version="3.0-IV1", retention_ms="123456789")
    things.configure(ResourceType.BROKER, "1", log_cleaner_threads="2")
    things.follower.subscribe(["steady"])


def use(cluster: MigratingCluster, things: ClientState, who: str, offset: int, *, trim: bool = True) -> None:
    """Do everything that clients do, including compaction."""
    cleaned = cluster.cleaned("compacted", 0)
    things.write_every_codec(who)
    things.write_on()
    things.flush()
    things.follow()
    things.write_keys(who)
    things.transact(who)
    things.commit("readers", "codecs", 0, offset)
    if trim:
        things.write_and_trim(offset)
    until(lambda: cluster.cleaned("compacted", 0) > cleaned, f"compaction by {who}")
    things.leave_open(who)


def test_a_cluster_moves_to_ottla_and_back(cluster: MigratingCluster) -> None:
    things = ClientState(cluster.bootstrap_servers)
    cluster.start_kafka()
    things.meet()
    create_everything(things)
    use(cluster, things, "kafka", 100)
    things.check(by_kafka=True)

    cluster.stop()
    things.write_on()  # its producer waits for the next broker
    cluster.start_ottla()
    things.meet()
    things.flush()
    things.follow()
    things.check(by_kafka=False)
    assert cluster.complaints(but=["is ignored", "is not registered"]) == []

    use(cluster, things, "ottla", 200)
    things.extend("codecs", len(CODECS) + 1)
    things.create("new", 2, retention_ms="99999999")
    things.configure(ResourceType.TOPIC, "old", retention_ms="222222222")
    things.configure(ResourceType.BROKER, "1", log_cleaner_threads="3")
    things.configure(ResourceType.BROKER, "2", log_retention_ms="987654321")
    write_what_only_kafka_4_has(things)
    things.check(by_kafka=False)

    cluster.stop()
    things.write_on()
    cluster.start_kafka()
    things.meet()
    things.flush()
    things.follow()
    things.check(by_kafka=True)
    # The broker names records of unknown groups and leaves them alone.
    assert "\n".join(cluster.complaints(but=["Unknown message key with version"])) == ""
    read_by_the_java_client(things)

    use(cluster, things, "kafka again", 300)
    take_up_a_transactional_id_of_kafka_4(things)
    things.check(by_kafka=True)


def test_a_cluster_moves_after_all_its_brokers_were_killed(cluster: MigratingCluster) -> None:
    """Kill all brokers; the next software finds every acknowledged record.

    Log start offsets are the exception: followers store them only from time to time.
    """
    things = ClientState(cluster.bootstrap_servers)
    cluster.start_kafka()
    things.meet()
    create_everything(things)
    use(cluster, things, "kafka", 100, trim=False)
    cluster.kill()

    cluster.start_ottla()
    things.meet()
    things.check(by_kafka=False)
    use(cluster, things, "ottla", 200, trim=False)
    cluster.kill()

    cluster.wait_for_sessions()  # Kafka refuses to start while its old registration exists
    cluster.start_kafka()
    things.meet()
    things.check(by_kafka=True)
    # A segment gets its index files when it is full or the broker stops; Kafka rebuilds missing ones. Killed brokers
    # have stored high watermarks from different moments.
    expected = ["Could not find offset index file", "Non-monotonic update of high watermark"]
    assert "\n".join(cluster.complaints(but=expected)) == ""


def test_what_kafka_began_is_finished(cluster: MigratingCluster, tmp_path: Path) -> None:
    """Covers a reassignment, a deletion that waits for a broker, and a stray directory."""
    things = ClientState(cluster.bootstrap_servers)
    cluster.start_kafka()
    things.meet()
    things.create("moving", assignment=[[0, 1]])
    things.create("doomed")
    values = [str(number).encode() * 1500 for number in range(1000)]
    producer = Producer(quiet(things.servers, linger_ms=5, batch_size=20_000))
    for value in values:
        producer.produce("moving", value, partition=0, on_delivery=delivered)
    assert producer.flush(60) == 0
    things.note("moving", 0, values)
    wanted = tmp_path / "wanted.json"
    wanted.write_text('{"version":1,"partitions":[{"topic":"moving","partition":0,"replicas":[2,1]}]}')
    reassign(cluster, wanted, "--execute", "--throttle", "1000")
    cluster.stop([2])
    said = cluster.refuse_ottla(2)
    assert "is Apache Kafka, and the two cannot share a cluster: stop all brokers of Kafka" in said
    things.meet(2)
    things.forget("doomed")
    assert 2 in cluster.directories("doomed")  # the broker is down, so Kafka has to wait
    cluster.stop()
    ghost = cluster.log_dirs(0)[0] / "ghost-0"
    ghost.mkdir()
    (ghost / "00000000000000000000.log").write_bytes(b"")

    cluster.start_ottla()
    things.meet()
    until(lambda: cluster.directories("doomed") == set(), "the deletion")
    assert "doomed" not in things.admin.list_topics(timeout=60).topics
    assert len(list(cluster.log_dirs(0)[0].glob("ghost-0.*-stray"))) == 1
    assert "is still in progress" in reassign(cluster, wanted, "--verify")
    reassign(cluster, wanted, "--execute", "--additional", "--throttle", "100000000")
    until(lambda: "is complete" in reassign(cluster, wanted, "--verify"), "the move")
    until(lambda: cluster.directories("moving") == {1, 2}, "the deletion of what was moved")
    things.check_records()

    cluster.stop()
    cluster.start_kafka()
    things.meet()
    things.check_records()
    assert "\n".join(cluster.complaints(but=["ghost-0"])) == ""


def reassign(cluster: MigratingCluster, wanted: Path, *options: str) -> str:
    tool = [kafka_tool("reassign-partitions")]
    command = [
        *tool,
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--reassignment-json-file",
        str(wanted),
    ]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_what_only_kafka_4_has(things: ClientState) -> None:
    """Write version 2 transactions, a KIP-848 group, and a group config."""
    things.create("newer")
    bootstrap = ["--producer-props", f"bootstrap.servers={things.servers}"]
    load = ["--num-records", "50", "--record-size", "10", "--throughput", "-1"]
    ids = ["--transactional-id", "newer", "--transaction-duration-ms", "20"]
    run_tool(PRODUCER_PERFORMANCE, ["--topic", "newer", *load, *ids, *bootstrap])
    member = Consumer(
        quiet(
            things.servers,
            group_id="newer",
            group_protocol="consumer",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
    )
    member.subscribe(["newer"])
    values = []
    while len(values) < 50:
        message = member.poll(60)
        assert message is not None, "nothing comes"
        assert message.error() is None
        values.append(message.value())
    [committed] = member.commit(asynchronous=False)
    member.close()
    things.offsets["newer"]["newer", 0] = committed.offset
    things.note("newer", 0, values)
    things.configure(ResourceType.GROUP, "newer", share_record_lock_duration_ms="50000")


def take_up_a_transactional_id_of_kafka_4(things: ClientState) -> None:
    producer = Producer(quiet(things.servers, transactional_id="newer"))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("newer", b"taken up", partition=0)
    producer.commit_transaction(60)
    things.note("newer", 0, [b"taken up"])


def read_by_the_java_client(things: ClientState) -> None:
    bootstrap = ["--bootstrap-server", things.servers, "--topic", "codecs", "--from-beginning"]
    count = 2 * RECORDS * len(CODECS)
    read = run_tool(
        CONSOLE_CONSUMER,
        [*bootstrap, "--max-messages", str(count), "--timeout-ms", "60000"],
        version=ZOOKEEPER_VERSION,
    )
    expected = [
        value.decode()
        for (topic, _), values in things.written.items()
        if topic == "codecs"
        for value in values
    ]
    assert sorted(read.stdout.splitlines()) == sorted(expected)
