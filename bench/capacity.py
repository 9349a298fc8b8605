"""What one broker carries, and what a machine does: the figures of docs/how-to/plan-capacity.md.

    python -m bench.capacity [--quick] [--full] [--only partitions,connections,groups,bytes,brokers,predictions]

Each part starts a broker of its own, loads it, and says what one more of a kind costs in memory, in processor time and
in time to start. What a machine carries follows from that. Processor time is the broker's own, so that other work on
the machine hardly changes it. The default sizes take about two minutes; `--full` takes five times as many.
"""

from __future__ import annotations

import argparse
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from rich.console import Console
from rich.table import Table

from bench.measuring.experiment import RunningClient, run_client, topic_on
from bench.peers.brokers import OttlaBroker, cpu_seconds, ottla_command, resident_mb
from bench.peers.clusters import ottla_cluster
from bench.rows.metadata import leader_port
from ottla.client.admin.groups import list_groups
from ottla.client.cluster import Cluster
from ottla.client.coordinators import CoordinatorType
from ottla.client.settings import Settings
from ottla.monitoring.capacity.load import loads
from ottla.monitoring.capacity.measuring import facts_between, look, probe
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_IDLE_SECONDS = 4.0
#: group.consumer.heartbeat.interval.ms, by default.
_HEARTBEAT_SECONDS = 5.0
_WITHIN = 0.25
_ROUNDS = 3

Row = tuple[str, str, str]


@contextmanager
def broker_of(*options: str) -> Iterator[OttlaBroker]:
    broker = OttlaBroker(ottla_command(), options=options)
    try:
        yield broker.start()
    finally:
        broker.stop()
        broker.remove()


def idle_share(pids: list[int], seconds: float = _IDLE_SECONDS) -> float:
    """Of one core, while nobody asks for anything."""
    before, began = cpu_seconds(pids), time.perf_counter()
    time.sleep(seconds)
    return (cpu_seconds(pids) - before) / (time.perf_counter() - began)


def partitions(scale: float) -> Iterator[Row]:
    count = round(2000 * scale)
    with broker_of() as broker:
        empty, idle, started = resident_mb(broker.pid), idle_share(broker.pids), broker.startup_seconds
        work = {"topic": "many", "partitions": count}
        created = run_client("create_topic", bootstrap=broker.bootstrap_servers, **work)["seconds"]
        full, busy = resident_mb(broker.pid), idle_share(broker.pids)
        broker.stop()
        watcher = RunningClient("served", bootstrap=broker.bootstrap_servers, **work)
        began = time.monotonic()
        broker.start()
        reopened = watcher.figures()["at"] - began
        each = (full - empty) / count
        yield f"{count:,} partitions: memory", f"{full - empty:.0f} MB", f"{1000 * each:.1f} MB per 1,000"
        yield "create them", f"{created:.1f} s", f"{1000 * created / count:.2f} s per 1,000"
        yield (
            "start with them, after a clean stop",
            f"{reopened:.1f} s",
            f"{1000 * max(reopened - started, 0) / count:.2f} s per 1,000, and {started:.1f} s",
        )
        yield (
            "idle, of a core",
            f"{busy:.1%}, empty {idle:.1%}",
            f"{1000 * max(busy - idle, 0) / count:.2%} per 1,000",
        )


def connections(scale: float) -> Iterator[Row]:
    count = round(2000 * scale)
    with broker_of() as broker, topic_on(broker, 1) as topic:
        got = run_client(
            "connections", host="127.0.0.1", port=broker.port, pid=broker.pid, topic=topic, count=count,
            round_trips=500, warm_up=500,
        )  # fmt: skip
        each = got["grown_mb"] * 1000 / count
        yield f"{count:,} connections: memory", f"{got['grown_mb']:.0f} MB", f"{each:.0f} kB each"
        yield (
            "open them, with ApiVersions on each",
            f"{got['seconds']:.1f} s",
            f"{count / got['seconds']:,.0f}/s",
        )
        yield "a round trip beside them, p99", f"{got['p99_us']:.0f} µs", ""


def groups(scale: float) -> Iterator[Row]:
    """Of the new protocol, each with one member; all heartbeats over one connection."""
    count = round(1000 * scale)
    with (
        broker_of("--set", "group.consumer.session.timeout.ms=60000") as broker,
        topic_on(broker, 1) as topic,
    ):
        with closing(
            Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
        ) as cluster:
            cluster.retrying(
                lambda: cluster.coordinators(CoordinatorType.GROUP, ["group-0"])
            )  # makes its topic
            empty, before = resident_mb(broker.pid), cpu_seconds(broker.pids)
            members = [(f"group-{number}", str(uuid.uuid4())) for number in range(count)]
            epochs = [_beat(cluster, group, member, 0, [topic]) for group, member in members]
            joined = cpu_seconds(broker.pids) - before
            grown = resident_mb(broker.pid) - empty
            before, rounds = cpu_seconds(broker.pids), 5
            for _ in range(rounds):
                for (group, member), epoch in zip(members, epochs, strict=True):
                    _beat(cluster, group, member, epoch, None)
            beat = (cpu_seconds(broker.pids) - before) / (rounds * count)
            began = time.perf_counter()
            found = len(list_groups(cluster))
            listed = time.perf_counter() - began
            if found != count:
                raise RuntimeError(f"{found} of {count} groups are there")
        yield (
            f"{count:,} groups with a member each: memory",
            f"{grown:.0f} MB",
            f"{1000 * grown / count:.0f} kB each",
        )
        yield "a member joins, of the broker's time", f"{joined / count * 1e6:.0f} µs", ""
        members_of_core = 0.5 * _HEARTBEAT_SECONDS / beat
        what = f"{members_of_core:,.0f} members keep half a core busy"
        yield f"a heartbeat, every {_HEARTBEAT_SECONDS:.0f} s", f"{beat * 1e6:.0f} µs", what
        yield "list them", f"{listed * 1000:.0f} ms", ""


def _beat(cluster: Cluster, group: str, member: str, epoch: int, topics: list[str] | None) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if topics is not None else -1,
        subscribed_topic_names=topics,
        topic_partitions=[] if topics is not None else None,
    )
    answer = cluster.any_connection().request(request, ConsumerGroupHeartbeatResponse)
    if answer.error_code:
        raise RuntimeError(f"{group}: {answer.error_code} {answer.error_message or ''}")
    return answer.member_epoch


def bytes_per_core(scale: float) -> Iterator[Row]:
    batches = round(400 * scale)
    with broker_of() as broker, topic_on(broker, 1) as topic:
        where = {"host": "127.0.0.1", "port": leader_port(broker.bootstrap_servers, topic), "topic": topic}
        run_client("fill", **where, batches=20)
        before = cpu_seconds(broker.pids)
        run_client("fill", **where, batches=batches)
        used = cpu_seconds(broker.pids) - before
        written = batches * 0.9  # MB, see DRAIN_RECORDS
        yield (
            "written in batches of 0.9 MB",
            f"{written:.0f} MB in {used:.2f} s of a core",
            f"{written / used:,.0f} MB/s per core",
        )
        before = cpu_seconds(broker.pids)
        reader = RunningClient("drain", **where, batches=20)
        began = time.perf_counter()
        time.sleep(3.0 * min(1.0, scale * 2))
        seconds = time.perf_counter() - began
        used = cpu_seconds(broker.pids) - before
        reader.stop()
        read = reader.figures()["mb_per_s"] * seconds
        yield (
            "read in batches of 0.9 MB",
            f"{read:.0f} MB in {used:.2f} s of a core",
            f"{read / used:,.0f} MB/s per core",
        )
        before, count = cpu_seconds(broker.pids), round(100_000 * scale)
        run_client("requests", **where, count=count, size=100)
        used = (cpu_seconds(broker.pids) - before) / count
        yield (
            "a Produce request of 100 bytes",
            f"{used * 1e6:.1f} µs of a core",
            f"{1 / used:,.0f} requests/s per core",
        )


def brokers(scale: float) -> Iterator[Row]:
    cluster = ottla_cluster(ottla_command())
    try:
        cluster.start()
        each = sum(map(resident_mb, cluster.pids)) / len(cluster.pids)
        others = [pid for pid in cluster.all_pids if pid not in cluster.pids]
        idle = idle_share(cluster.pids) / len(cluster.pids)
        zookeeper = sum(map(resident_mb, others))
        cores = os.cpu_count() or 1
        yield f"{len(cluster.pids)} brokers on this machine: start", f"{cluster.startup_seconds:.1f} s", ""
        yield (
            "a broker of a cluster, idle: memory",
            f"{each:.0f} MB",
            f"ZooKeeper beside it {zookeeper:.0f} MB",
        )
        yield "a broker of a cluster, idle: of a core", f"{idle:.1%}", f"{cores} cores: {cores} busy brokers"
    finally:
        cluster.stop()
        cluster.remove()


def predictions(scale: float) -> Iterator[Row]:
    """What `ottla capacity` says beforehand, beside what happens then."""
    # Short, so that the page cache takes it all: what disks sustain is another figure.
    seconds = 0.5 if scale < 1 else 1.0
    with (
        broker_of() as broker,
        closing(
            Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
        ) as cluster,
    ):
        # In turn, because something else may run meanwhile; the best of each is what the machine can do.
        foretold, happened = [], []
        for _ in range(_ROUNDS):
            foretold.append(probe(cluster, seconds))
            happened.append(probe(cluster, 2 * seconds))
        for number, name in enumerate(("produce", "consume")):
            one, two = (max(each[number] for each in found) for found in (foretold, happened))
            yield _beside(f"a partition, {name}", one / 1e6, two / 1e6, "MB/s")
        with topic_on(broker, 2) as topic:
            size, amount = 100_000, 1000
            where = {
                "host": "127.0.0.1",
                "port": leader_port(broker.bootstrap_servers, topic),
                "topic": topic,
            }
            looks = [look(cluster)]
            for _ in range(2):
                run_client("requests", **where, count=amount, size=size // 100)
                looks.append(look(cluster))
            first = facts_between(looks[0], looks[1])
            told = sum(each.bytes_in for each in loads(first).brokers.values()) * first.seconds
            grown = sum(looks[2].sizes.values()) - sum(looks[1].sizes.values())
            yield _beside("growth of the disk, for as much again", told / 1e6, grown / 1e6, "MB")


def _beside(what: str, foretold: float, happened: float, unit: str) -> Row:
    off = abs(foretold - happened) / happened if happened else 1.0
    verdict = "within 25 %" if off <= _WITHIN else f"missed by {off:.0%}"
    return f"predicted: {what}", f"{foretold:,.1f} {unit}, measured {happened:,.1f} {unit}", verdict


PARTS: dict[str, Callable[[float], Iterator[Row]]] = {
    "partitions": partitions,
    "connections": connections,
    "groups": groups,
    "bytes": bytes_per_core,
    "brokers": brokers,
    "predictions": predictions,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of it: shows that it works, no more")
    parser.add_argument("--full", action="store_true", help="five times as much of everything")
    parser.add_argument("--only", default=",".join(PARTS))
    args = parser.parse_args()
    scale = 0.1 if args.quick else 5.0 if args.full else 1.0
    table = Table("what", "measured", "hence")
    for name in args.only.split(","):
        try:
            for row in PARTS[name.strip()](scale):
                table.add_row(*row)
        except KeyError:
            parser.error(f"there is no part {name}: there are {', '.join(PARTS)}")
        except Exception as error:
            table.add_row(name, f"not measured: {error}", "")
        table.add_section()
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
