"""An experiment measures one or more rows of the table on one broker, in one go.

The driver runs it on Ottla and on Apache Kafka in turn, several times, and on the machine's limit where
that means something.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from bench.measuring.figures import Better, Summary
from bench.measuring.limit import BareServer
from bench.peers.brokers import Broker, Contestant

Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    better: Better = "higher"
    of: Summary = "best"  # what the table shows of all repetitions


@dataclass(frozen=True)
class Scale:
    """How much work a row does. `quick` shows that everything works; its figures mean little."""

    megabytes: int = 256
    small_record_megabytes: int = 64
    java_megabytes: int = 256
    requests: int = 100_000
    round_trips: int = 10_000
    end_to_end: int = 2_000
    drain_batches: int = 128
    connections: int = 5_000
    partitions: int = 1_000
    many_partitions: int = 2_000
    transactions: int = 1_000
    failovers: int = 3
    controller_partitions: int = 3_000
    logins: int = 300

    @classmethod
    def quick(cls) -> Scale:
        return cls(16, 4, 16, 4_000, 500, 100, 16, 500, 100, 200, 50, 1, 300, 20)


@dataclass(frozen=True)
class Experiment:
    rows: tuple[Row, ...]
    measure: Callable[[Contestant, Scale], Figures]
    limit: Callable[[BareServer, Scale], Figures] | None = None
    # None: every contestant; else only the named one can be measured this way.
    only: str | None = None

    def wanted(self, patterns: list[str]) -> bool:
        return any(matches(row.name, patterns) for row in self.rows)


def matches(name: str, patterns: list[str]) -> bool:
    """A pattern is a part of the row's name, or a shell pattern for all of it; no pattern means every row."""
    name = name.lower()
    return not patterns or any(
        pattern.lower() in name or fnmatch.fnmatchcase(name, pattern.lower()) for pattern in patterns
    )


def run_client(client: str, *, timeout: float = 600, **arguments: Any) -> Figures:
    """Run one of `bench.clients` in a process of its own and return its figures."""
    done = subprocess.run(client_command(client, arguments), capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{client}: {last_line(done.stderr)}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


class RunningClient:
    """A client that says "ready", works beside the driver, and is asked for its figures at the end."""

    def __init__(self, client: str, **arguments: Any) -> None:
        self._client = client
        self._process = subprocess.Popen(
            client_command(client, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            self.figures()

    def stop(self) -> None:
        self._process.terminate()

    def figures(self, *, timeout: float = 300) -> Figures:
        """Wait for the client's end and for what it measured."""
        try:
            said, complained = self._process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise RuntimeError(f"{self._client} did not end within {timeout:.0f} s") from None
        if self._process.returncode != 0:
            raise RuntimeError(f"{self._client}: {last_line(complained)}")
        figures: Figures = json.loads(said.splitlines()[-1])
        return figures


def client_command(client: str, arguments: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "bench.clients", client, json.dumps(arguments)]


def last_line(text: str) -> str:
    """The last thing a client or a tool said, without librdkafka's log (its lines begin with %)."""
    lines = [line for line in text.strip().splitlines() if line and not line.startswith("%")]
    return lines[-1] if lines else "it said nothing"


_numbers = count(1)


@contextmanager
def topic_on(broker: Broker, partitions: int) -> Iterator[str]:
    name = f"bench-{next(_numbers)}"
    run_client("create_topic", bootstrap=broker.bootstrap_servers, topic=name, partitions=partitions)
    yield name
    # After a failure the topic stays: the broker may be gone, and the failure is what should be told.
    run_client("delete_topic", bootstrap=broker.bootstrap_servers, topic=name)
