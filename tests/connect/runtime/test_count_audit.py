"""Connectors as tiers of the count audit, which counts each source write and each sink delivery once."""

from __future__ import annotations

from pathlib import Path

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import commit_offsets
from ottla.connect.runtime.engine import State
from ottla.monitoring.audit.audit_topic import read_tier_counts
from ottla.monitoring.audit.count_reports import Counts, fingerprint
from ottla.monitoring.audit.counting import Tier, count_topic
from ottla.monitoring.audit.tier_counts import TierCounts
from ottla.testing import Broker
from tests.connect.runtime.conftest import Worker, wait_for

DAY = 86_400_000
AUDIT = {"ottla.audit.enable": "true", "ottla.audit.bucket.ms": str(DAY)}


def _tier_counts(worker: Worker) -> TierCounts:
    cluster = Cluster(worker.config.client_settings)
    try:
        return read_tier_counts(cluster) if cluster.topics(["__ottla_audit"]) else TierCounts()
    finally:
        cluster.close()


def _total(tier_counts: TierCounts, topic: str, tier: str) -> Counts:
    total = Counts()
    for each in tier_counts.counts.get((topic, tier), {}).values():
        total.add(each.count, each.bytes, each.checksum)
    return total


def _of(*values: bytes) -> Counts:
    total = Counts()
    for each in values:
        total.add(1, len(each), fingerprint(None, each))
    return total


def test_what_a_source_and_a_sink_count_is_what_the_topic_has(
    worker: Worker, ottla_topic: str, tmp_path: Path
) -> None:
    lines, out = tmp_path / "lines", tmp_path / "out"
    lines.write_text("one\ntwo\n")
    source = {
        "name": f"from-{ottla_topic}",
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": ottla_topic,
        **AUDIT,
    }
    sink = {
        "name": f"to-{ottla_topic}",
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": ottla_topic,
        "ottla.audit.tier": "file",
        **AUDIT,
    }
    for more, text in (("", "one\ntwo\n"), ("three\n", "one\ntwo\nthree\n")):
        with lines.open("a") as file:
            file.write(more)
        running = [worker.start(source), worker.start(sink)]
        wait_for(lambda text=text: out.exists() and out.read_text() == text)
        for each in running:
            each.stop()
        expected = _of(*text.encode().split())
        assert _total(_tier_counts(worker), ottla_topic, f"from-{ottla_topic}") == expected
        assert _total(_tier_counts(worker), ottla_topic, "file") == expected
    cluster = Cluster(worker.config.client_settings)
    tier_counts = _tier_counts(worker)
    for page in count_topic(cluster, ottla_topic, Tier("topic", DAY), tier_counts):
        tier_counts.add(page)
    cluster.close()
    day = next(iter(tier_counts.counts[ottla_topic, "topic"]))
    tiers = tier_counts.tiers(ottla_topic)
    assert {tier: tier_counts.counts[ottla_topic, tier][day].checksum for tier in tiers} == dict.fromkeys(
        [f"from-{ottla_topic}", "file", "topic"], expected.checksum
    )  # fmt: skip


def test_what_a_sink_gets_again_after_a_crash_counts_once(
    worker: Worker, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for value in (b"a", b"b"):
        ottla_broker.produce(ottla_topic, value)
    config = {
        "name": f"again-{ottla_topic}",
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": ottla_topic,
        **AUDIT,
    }
    running = worker.start(config)
    wait_for(lambda: out.exists() and out.read_text() == "a\nb\n")
    running.stop()
    cluster = Cluster(worker.config.client_settings)
    # The state after a crash between the page and the offset commit.
    commit_offsets(cluster, f"connect-{config['name']}", {TopicPartition(ottla_topic, 0): 0})
    cluster.close()
    ottla_broker.produce(ottla_topic, b"c")
    running = worker.start(config)
    wait_for(lambda: out.read_text() == "a\nb\na\nb\nc\n")
    running.stop()
    assert _total(_tier_counts(worker), ottla_topic, config["name"]).count == 3


def test_a_setting_that_makes_no_sense_is_named(worker: Worker, ottla_topic: str, tmp_path: Path) -> None:
    config = {
        "name": f"bad-{ottla_topic}",
        "connector.class": "FileStreamSink",
        "file": str(tmp_path / "out"),
        "topics": ottla_topic,
        "ottla.audit.enable": "yes",
    }
    running = worker.start(config)
    worker.await_state(running, State.RUNNING, State.FAILED)
    assert "ottla.audit.enable must be true or false, not 'yes'" in running.status.tasks[0].trace
    running.stop()
