"""Megabytes a second: produce and consume with confluent-kafka and with Kafka's own perf tools."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from bench.measuring.experiment import Experiment, Figures, Row, Scale, last_line, run_client, topic_on
from bench.measuring.limit import BareServer
from bench.peers.apache_kafka import CONSUMER_PERFORMANCE, PRODUCER_PERFORMANCE, run_tool
from bench.peers.brokers import Contestant


def bytes_text(size: int) -> str:
    return f"{size} B" if size < 1_000 else f"{size // 1_000} KB"


def bare_throughput(produce: Row, consume: Row) -> Callable[[BareServer, Scale], Figures]:
    def limit(server: BareServer, scale: Scale) -> Figures:
        return {
            produce.name: server.write_mb_per_s(scale.megabytes * 1_000_000),
            consume.name: server.read_mb_per_s(scale.megabytes * 1_000_000),
        }

    return limit


def throughput_label(size: int, partitions: int) -> str:
    return f"{bytes_text(size)}, {partitions} partition{'s' if partitions > 1 else ''}"


def throughput(size: int, partitions: int) -> Experiment:
    label = throughput_label(size, partitions)
    produce = Row(f"produce {label}", "MB/s")
    consume = Row(f"consume {label}", "MB/s")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        contestant.loaded = True
        megabytes = scale.small_record_megabytes if size < 1_000 else scale.megabytes
        work = {"bootstrap": broker.bootstrap_servers, "size": size, "partitions": partitions}
        with topic_on(broker, partitions) as topic:
            records = megabytes * 1_000_000 // size
            produced = run_client(
                "produce_confluent", topic=topic, records=records, round_bytes=64_000_000, **work
            )
            consumed = run_client("consume_confluent", topic=topic, records=int(produced["records"]), **work)
        return {produce.name: produced["mb_per_s"], consume.name: consumed["mb_per_s"]}

    return Experiment((produce, consume), measure, bare_throughput(produce, consume))


def java_throughput(size: int = 1_000) -> Experiment:
    produce = Row(f"produce {bytes_text(size)}, Kafka's perf tool", "MB/s")
    consume = Row(f"consume {bytes_text(size)}, Kafka's perf tool", "MB/s")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        contestant.loaded = True
        records = scale.java_megabytes * 1_000_000 // size
        bootstrap = ["--bootstrap-server", broker.bootstrap_servers]
        with topic_on(broker, 1) as topic:
            work = ["--topic", topic, "--num-records", str(records), "--record-size", str(size)]
            tuned = ["acks=all", "linger.ms=5", "batch.size=1000000", "buffer.memory=134217728"]
            said = run_tool(
                PRODUCER_PERFORMANCE,
                [*bootstrap, *work, "--throughput", "-1", "--command-property", *tuned],
            ).stdout
            produced = produced_per_second(said) * size / 1e6
            said = run_tool(
                CONSUMER_PERFORMANCE, [*bootstrap, "--topic", topic, "--num-records", str(records)]
            ).stdout
            consumed = fetched_per_second(said) * size / 1e6
        return {produce.name: produced, consume.name: consumed}

    return Experiment((produce, consume), measure, bare_throughput(produce, consume))


def produced_per_second(said: str) -> float:
    """Records a second from the last summary of ProducerPerformance."""
    for line in reversed(said.splitlines()):
        if "records sent" in line and "records/sec" in line:
            return float(line.split(" records/sec")[0].rsplit(" ", 1)[1].replace(",", ""))
    raise RuntimeError(f"ProducerPerformance said: {last_line(said)}")


def fetched_per_second(said: str) -> float:
    """Records a second while fetching, without the time to join the group, from ConsumerPerformance."""
    lines = [line.split(", ") for line in said.splitlines() if ", " in line]
    for names, values in pairwise(lines):
        if "fetch.nMsg.sec" in names and len(names) == len(values):
            return float(values[names.index("fetch.nMsg.sec")])
    raise RuntimeError(f"ConsumerPerformance said: {last_line(said)}")
