"""Compaction: records a second of Ottla's and of Apache Kafka's cleaner on the same log, and what a producer feels.

    python -m bench.compaction                  # half a gigabyte
    python -m bench.compaction --gigabytes 5

The log is written once, in Kafka's format, and given to a topic of each broker in turn. A producer sends one-record
requests all the while, each waiting for its answer; after some seconds `min.cleanable.dirty.ratio` is lowered, and the
clock runs until the cleaner's checkpoint has reached the end of the log.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from crc32c import crc32c

from bench.measuring import wire
from bench.measuring.figures import percentiles_us
from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from bench.peers.brokers import Broker, OttlaBroker, ottla_command
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.protocol.records import Record, build_batch

TOPIC, LIVE = "compacted", "live"
KEY_BYTES = 16
RECORD_BYTES = 100  # key and value
BATCH_RECORDS = 150  # about 16 KB, the default batch of a producer
MOST_KEYS = 4_000_000  # what the default dedupe buffer can hold
BACKOFF_MS = "100"
PACE_SECONDS = 0.001
_SKIP = ("partition.metadata",)


class Source(NamedTuple):
    """The log that both compact."""

    directory: Path
    records: int
    end_offset: int
    size: int


class Outcome(NamedTuple):
    """What one broker's cleaner did, and what the producer saw meanwhile."""

    seconds: float
    records_per_s: float
    mb_per_s: float
    bytes_left: int
    idle: dict[str, float]
    during: dict[str, float]


def write_source(directory: Path, gigabytes: float, segment_bytes: int) -> Source:
    """Uniformly distributed keys, each on average ten times: nine tenths of the log are to go."""
    records = max(BATCH_RECORDS, int(gigabytes * 1e9 / RECORD_BYTES)) // BATCH_RECORDS * BATCH_RECORDS
    keys = min(MOST_KEYS, records // 10)
    log = PartitionLog.open(
        directory / f"{TOPIC}-0", TOPIC, 0, LogConfig(segment_bytes=segment_bytes), clean_shutdown=False
    )
    now = int(time.time() * 1000)
    value = bytes(range(RECORD_BYTES - KEY_BYTES))
    template = np.frombuffer(
        bytes(
            build_batch([Record(0, now, b"K" * KEY_BYTES, value)] * BATCH_RECORDS, partition_leader_epoch=0)
        ),
        np.uint8,
    )
    places = np.array([found.start() for found in re.finditer(b"K" * KEY_BYTES, template.tobytes())])
    columns = places[:, None] + np.arange(KEY_BYTES)
    random = np.random.default_rng(1)
    powers = 10 ** np.arange(KEY_BYTES - 1, -1, -1, dtype=np.int64)
    per_chunk = 64
    left = records // BATCH_RECORDS
    while left:
        count = min(left, per_chunk)
        chosen = random.integers(0, keys, (count, BATCH_RECORDS), np.int64)
        digits = (chosen[:, :, None] // powers % 10 + ord("0")).astype(np.uint8)
        chunk = np.tile(template, (count, 1))
        chunk[:, columns] = digits
        data = bytearray(chunk.tobytes())
        view, size = memoryview(data), len(template)
        for at in range(count):
            start = at * size
            view[start : start + 8] = (log.log_end_offset + at * BATCH_RECORDS).to_bytes(8, "big")
            view[start + 17 : start + 21] = crc32c(view[start + 21 : start + size]).to_bytes(4, "big")
        log.append_as_follower(data)
        left -= count
    log.roll()
    end, total = log.log_end_offset, log.size
    log.close()
    return Source(Path(log.path), records, end, total)


def give(broker: Broker, source: Source) -> None:
    """Put the log into the directory of a topic while its broker is stopped."""
    target = broker.log_dir / f"{TOPIC}-0"
    for path in target.iterdir():
        if path.name not in _SKIP:
            path.unlink()
    for path in source.directory.iterdir():
        if path.suffix == ".log" and path.stat().st_size:
            os.link(path, target / path.name)  # neither broker writes to a sealed segment
        elif path.name not in _SKIP:
            shutil.copy(path, target)
    for name in ("cleaner-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (broker.log_dir / name).unlink(missing_ok=True)


def cleaned_up_to(broker: Broker) -> int:
    try:
        text = (broker.log_dir / "cleaner-offset-checkpoint").read_text()
    except FileNotFoundError:
        return 0
    found = re.search(rf"^{TOPIC} 0 (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def round_trips(broker: Broker, finished: Callable[[], bool]) -> dict[str, float]:
    """One-record Produce requests, a thousand a second at most, until it is over."""
    request = wire.produce_frame(LIVE, 0, wire.record_batch([bytes(100)]))
    times: list[int] = []
    with wire.connect("127.0.0.1", broker.port, timeout=60) as connection:
        for _ in range(200):
            wire.produce(connection, LIVE, request)
        look = time.monotonic()
        while True:
            began = time.perf_counter_ns()
            connection.sendall(request)
            wire.read_response(connection)
            times.append(time.perf_counter_ns() - began)
            if time.monotonic() >= look:
                if finished():
                    return {**percentiles_us(times), "requests": float(len(times))}
                look = time.monotonic() + 0.02
            time.sleep(PACE_SECONDS)


def measure(broker: Broker, source: Source, idle_seconds: float, segment_bytes: int) -> Outcome:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1.0",
        "segment.bytes": str(segment_bytes),
    }
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topics = [NewTopic(TOPIC, 1, 1, config=config), NewTopic(LIVE, 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result()
    del admin
    broker.stop()
    give(broker, source)
    broker.start()
    idle_until = time.monotonic() + idle_seconds
    idle = round_trips(broker, lambda: time.monotonic() > idle_until)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entry = ConfigEntry("min.cleanable.dirty.ratio", "0.0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result()
    began = time.monotonic()
    during = round_trips(broker, lambda: cleaned_up_to(broker) >= source.end_offset)
    seconds = time.monotonic() - began
    left = sum(path.stat().st_size for path in (broker.log_dir / f"{TOPIC}-0").glob("*.log"))
    return Outcome(seconds, source.records / seconds, source.size / seconds / 1e6, left, idle, during)


def show(outcomes: dict[str, Outcome], source: Source) -> None:
    print(f"{source.records:,} records of {RECORD_BYTES} bytes, {source.size / 1e6:,.0f} MB\n")
    rows: list[tuple[str, Callable[[Outcome], str]]] = [
        ("compaction, records/s", lambda o: f"{o.records_per_s:,.0f}"),
        ("compaction, MB/s", lambda o: f"{o.mb_per_s:,.0f}"),
        ("seconds", lambda o: f"{o.seconds:.1f}"),
        ("MB left", lambda o: f"{o.bytes_left / 1e6:,.0f}"),
        ("producer idle, p50 / p99 µs", lambda o: f"{o.idle['p50_us']:,.0f} / {o.idle['p99_us']:,.0f}"),
        ("producer during, p50 / p99 µs", lambda o: f"{o.during['p50_us']:,.0f} / {o.during['p99_us']:,.0f}"),
        ("p99 during ÷ idle", lambda o: f"{o.during['p99_us'] / o.idle['p99_us']:.2f}"),
    ]
    names = list(outcomes)
    print("".join([f"{'':34}", *(f"{name:>20}" for name in names)]))
    for title, text in rows:
        print("".join([f"{title:34}", *(f"{text(outcomes[name]):>20}" for name in names)]))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=0.5, help="size of the log (default 0.5)")
    parser.add_argument("--segment-bytes", type=int, default=256 * 1024**2)
    parser.add_argument("--idle-seconds", type=float, default=5)
    parser.add_argument("--ottla", help="the ottla command to measure")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--json", type=Path, help="keep the figures")
    options = parser.parse_args(arguments)
    contestants: dict[str, Callable[[], Broker]] = {
        "Ottla": lambda: OttlaBroker(
            ottla_command(options.ottla),
            options=["--set", f"log.cleaner.backoff.ms={BACKOFF_MS}"],
            start_timeout=600,
        )
    }
    if not options.no_kafka:
        try:
            kafka_jars()
            contestants["Apache Kafka"] = lambda: ApacheKafka(
                config={"log.cleaner.backoff.ms": BACKOFF_MS}, start_timeout=600
            )
        except Unavailable as reason:
            print(f"Without Apache Kafka: {reason}", file=sys.stderr)
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="ottla-compaction-") as directory:
        source = write_source(Path(directory), options.gigabytes, options.segment_bytes)
        for name, launch in contestants.items():
            broker = launch()
            try:
                outcomes[name] = measure(broker, source, options.idle_seconds, options.segment_bytes)
            finally:
                broker.stop()
                broker.remove()
    show(outcomes, source)
    if options.json:
        figures = {name: outcome._asdict() for name, outcome in outcomes.items()}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
