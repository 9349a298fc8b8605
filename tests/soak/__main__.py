"""`python -m tests.soak`: run a soak and say whether anything was lost, doubled, reordered or leaked."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.ports import free_ports
from tests.history.checker import check
from tests.history.recorder import PARTITIONS as HISTORY_PARTITIONS
from tests.history.recorder import TOPIC as HISTORY_TOPIC
from tests.history.recorder import Recorder
from tests.soak import spark_parts
from tests.soak.faults import SMALL_DISK, SoakFaults, small_disk
from tests.soak.load import (
    PARTITIONS,
    Copier,
    Ends,
    Feeder,
    count,
    rows_stored,
    wrong_numbers,
    wrong_sequence,
)
from tests.soak.plot import write_plot
from tests.soak.resources import Resources
from tests.soak.servers import BROKERS, Process, SecuredCluster, answer_of, request, wait_until

#: Shorter runs end before processes have reached their working size.
_JUDGED_SECONDS = 900.0
_CATCH_UP_SECONDS = 300.0
_CONNECTORS = {
    "counting": {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "topic": "verified",
        "throughput": "20",
        "complete.record.data": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "tasks.max": "1",
    },
    "storing": {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": "verified",
        "auto.create": "true",
        "offsets.table": "connect_offsets",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "tasks.max": "1",
    },
}


class Soak:
    def __init__(self, directory: Path, seed: int, every: float) -> None:
        self._directory = directory
        self._every = every
        self._database = directory / "stored.db"
        self._stack = contextlib.ExitStack()
        try:
            self._start(seed)
        except BaseException:
            self.close()
            raise

    def _start(self, seed: int) -> None:
        directory = self._directory
        data = directory / "cluster"
        data.mkdir(mode=0o700)  # --secure refuses a directory that others can open
        has_small_disk = self._stack.enter_context(small_disk(data / f"broker-{SMALL_DISK}"))
        self.cluster = SecuredCluster(directory)
        self._stack.callback(self.cluster.stop)
        self._target_port, connect_port = free_ports(2)
        self._connect = f"127.0.0.1:{connect_port}"
        self.target = Process(
            "target",
            [
                "ottla",
                "start",
                "--listen",
                f"127.0.0.1:{self._target_port}",
                "--data",
                str(directory / "target"),
            ],
            directory,
            "Ctrl-C",
        )
        self._stack.callback(self.target.stop)
        self._create_topics()
        self.spark = self._start_spark()
        self._stack.callback(self.spark.stop)
        client = self.cluster.client()
        self.feeder = Feeder(client, pause=0.02)
        self.copier = Copier(client)
        self.recorder = Recorder(**{"bootstrap_servers": client.pop("bootstrap.servers"), **client})
        self.faults = SoakFaults(self.cluster, seed, has_small_disk=has_small_disk)
        self.resources = Resources(self._roots)
        self._stop_asking = threading.Event()
        self.answers = 0
        self._problems: list[str] = []
        self._asking = threading.Thread(target=self._ask)

    def _create_topics(self) -> None:
        admin = AdminClient(self.cluster.client())
        wanted = {
            "numbers": PARTITIONS,
            "copied": PARTITIONS,
            "verified": PARTITIONS,
            "passed": 1,
            "counts": 1,
        }
        topics = [NewTopic(name, count, 3) for name, count in wanted.items()]
        topics.append(NewTopic(HISTORY_TOPIC, HISTORY_PARTITIONS, 3))
        for made in admin.create_topics(topics, request_timeout=60).values():
            made.result(60)

    def _start_spark(self) -> Process:
        arguments = ["tests.soak.spark_parts", str(self._directory), str(self.cluster.client_file)]
        arguments += [self.target_servers, self._connect]
        return Process("spark", arguments, self._directory, spark_parts.READY)

    @property
    def target_servers(self) -> str:
        return f"127.0.0.1:{self._target_port}"

    def _roots(self) -> dict[str, int]:
        brokers = {f"broker {each}": self.cluster.broker_pid(each) for each in BROKERS}
        return {**brokers, "servers": self.cluster.pid, "target": self.target.pid, "spark": self.spark.pid}

    def _ask(self) -> None:
        """Send requests to the registry, the REST proxy, the console and the Connect worker."""
        client = self.cluster.client()
        cluster = self.cluster
        urls = [
            f"http://{cluster.registry}/subjects",
            f"http://{cluster.rest}/topics",
            f"http://{cluster.console}/",
        ]
        urls.append(f"http://{self._connect}/connectors")
        while not self._stop_asking.wait(2):
            self.answers += sum(request(url, client) == 200 for url in urls)

    def _start_connectors(self) -> None:
        for name, config in _CONNECTORS.items():
            if name == "storing":
                config = {**config, "connection.url": f"jdbc:sqlite:{self._database}"}
            body = json.dumps(config).encode()
            wait_until(
                lambda name=name, body=body: (
                    request(
                        f"http://{self._connect}/connectors/{name}/config", self.cluster.client(), "PUT", body
                    )
                    in (200, 201)
                ),
                f"the connector {name} is created",
            )

    # Lifecycle

    def run(self, seconds: float) -> None:
        self._start_connectors()
        self.feeder.start()
        self.copier.start()
        self.recorder.start(producers=1, consumers=2, members=2, pause=0.05)
        self.resources.start()
        self._asking.start()
        reporting = threading.Thread(target=self._report, daemon=True)
        reporting.start()
        try:
            wait_until(lambda: rows_stored(self._database) > 0, "the first row is in the database")
            self.faults.strike_for(seconds, self._every)
            self.faults.end()
        except TimeoutError as error:
            self._problems.append(str(error))
        finally:
            self.resources.stop()
            self.feeder.stop()
            self.recorder.stop_sending()
        try:
            self.recorder.wait_until_read(_CATCH_UP_SECONDS)
        except AssertionError as error:
            self._problems.append(str(error))
        request(f"http://{self._connect}/connectors/counting/pause", self.cluster.client(), "PUT")
        self._catch_up()
        self.copier.stop()
        self.recorder.stop_reading()
        self._stop_asking.set()
        self._asking.join()

    def _report(self) -> None:
        """Print a line every 30 seconds."""
        ends, copy = Ends(self.cluster.client()), Ends({"bootstrap.servers": self.target_servers})
        while not self._stop_asking.wait(30):
            late = {role: held[-1].mb for role, held in self.resources.samples.items() if held}
            print(
                f"{time.strftime('%H:%M:%S')} {self.resources.seconds:5.0f} s: {len(self.faults.struck)} faults "
                f"(last: {self.faults.struck[-1][1] if self.faults.struck else 'none'}); "
                f"{len(self.feeder.acknowledged)} numbers, {self.copier.transactions} transactions "
                f"({self.copier.repeated} repeated, {self.copier.given_up} given up, last: {self.copier.problem}), "
                f"{ends.of('passed', 1)} through SQL, {copy.of('soak.numbers')} mirrored, "
                f"{rows_stored(self._database)} rows stored, {len(self.recorder.acknowledged)} in the history, "
                f"{self.answers} answers; {sum(late.values()):.0f} MB in all",
                flush=True,
            )

    def _catch_up(self) -> None:
        """Wait until the copies have as many records as the originals."""
        wanted = self.feeder.sent
        client, target = self.cluster.client(), {"bootstrap.servers": self.target_servers}

        def all_arrived() -> bool:
            return (
                count(target, "soak.numbers") >= wanted
                and count(client, "passed", 1) >= wanted
                and count(client, "copied") >= wanted
                and rows_stored(self._database) >= count(client, "verified")
            )

        with contextlib.suppress(TimeoutError):  # the verdict names the missing records
            wait_until(all_arrived, "everything has arrived", _CATCH_UP_SECONDS)

    def verdict(self) -> Iterator[str]:
        """Return all errors."""
        yield from self._problems
        yield from self._failed_tasks()
        client, target = self.cluster.client(), {"bootstrap.servers": self.target_servers}
        yield from wrong_numbers(client, target, self.feeder)
        yield from wrong_sequence(client, self._database)
        self.recorder.read_to_the_end()
        yield from map(str, check(self.recorder.history))
        if not self.answers:
            yield "no HTTP server answered"
        for process in (self.cluster, self.target, self.spark):
            if not process.is_running:
                yield f"{process.name} has ended: see {process.log}"
        if self.resources.seconds >= _JUDGED_SECONDS:
            yield from (f"{each.role} grows: {each}" for each in self.resources.trends() if not each.is_flat)

    def _failed_tasks(self) -> Iterator[str]:
        for name in _CONNECTORS:
            found = answer_of(f"http://{self._connect}/connectors/{name}/status", self.cluster.client())
            for task in found.get("tasks", ()):
                if task["state"] == "FAILED":
                    yield f"task {task['id']} of connector {name} failed: {task.get('trace', '').splitlines()[:1]}"

    def close(self) -> None:
        self._stack.close()


def main() -> int:
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("The soak was stopped."))
    asked = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    asked.add_argument("--seconds", type=float, default=180, help="Duration of the faults [default: 180]")
    asked.add_argument("--every", type=float, default=20, help="Seconds from fault to fault [default: 20]")
    asked.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1, 1_000_000), help="Order of faults"
    )
    asked.add_argument("--plot", type=Path, help="File for the picture (SVG)")
    asked.add_argument("--directory", type=Path, help="Directory for data and logs, which are kept")
    options = asked.parse_args()
    directory = (
        options.directory.absolute() if options.directory else Path(tempfile.mkdtemp(prefix="ottla-soak-"))
    )
    directory.mkdir(parents=True, exist_ok=True)
    print(f"Soak of {options.seconds:g} s, --seed {options.seed}, logs in {directory}", flush=True)
    wrong = soak(directory, options.seconds, options.every, options.seed, options.plot)
    if not wrong and options.directory is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if wrong else 0


def soak(directory: Path, seconds: float, every: float, seed: int, plot: Path | None) -> list[str]:
    """Run a soak, print its facts, and return all errors."""
    running = Soak(directory, seed, every)
    try:
        running.run(seconds)
        wrong = list(running.verdict())
        is_judged = running.resources.seconds >= _JUDGED_SECONDS
        title = f"{seconds / 60:.0f} minutes, {len(running.faults.struck)} faults"
        if plot is not None:
            write_plot(plot, running.resources.samples, running.faults.struck, title)
        print(
            f"{'process':<16} {'memory':>11} {'growth':>11} {'open files':>13} {'growth':>6}  in the second half"
        )
        for each in running.resources.trends():
            print(each)
        print(
            f"{len(running.faults.struck)} faults; {len(running.feeder.acknowledged)} numbers, "
            f"{running.copier.transactions} transactions, {rows_stored(directory / 'stored.db')} rows stored, "
            f"{len(running.recorder.acknowledged)} records in the history, {running.answers} answers over HTTP"
        )
    finally:
        running.close()
    for each in wrong[:20]:
        print(f"WRONG: {each}")
    fine = "nothing lost, doubled or reordered; "
    fine += "memory and open files are flat" if is_judged else "too short to judge memory and open files"
    print(f"VERDICT: {f'{len(wrong)} problems' if wrong else fine}")
    return wrong


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    except SystemExit as error:
        if isinstance(error.code, int):
            code = error.code
        else:
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)  # hanging client threads would keep the process alive
