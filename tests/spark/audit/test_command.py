"""`ottla audit balance --spark` and `ottla audit watch`, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.audit.audit_topic import ensure_audit_topic, write_entries
from ottla.monitoring.audit.count_reports import NO_PARTITION, CountReport
from ottla.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with (
        Broker() as running,
        closing(Cluster(Settings(parse_servers(running.bootstrap_servers)))) as cluster,
    ):
        ensure_audit_topic(cluster)
        for tier, count in (("source", 3), ("mirror", 2)):
            report = CountReport("orders", tier, NO_PARTITION, -1, -1, 9_000_000, "here", 600_000)
            for number in range(count):
                report.note(0, None, b"%d" % number)
            write_entries(cluster, [report])
        yield running


def command(broker: Broker, home: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    options = ("--bootstrap-server", broker.bootstrap_servers, "--tiers", "source,mirror")
    environment = {**os.environ, "XDG_STATE_HOME": str(home), "PYTHONPATH": str(Path.cwd())}
    return [sys.executable, "-m", "ottla", "audit", *arguments, *options], environment


def test_spark_says_what_the_plain_balance_says(broker: Broker, tmp_path: Path) -> None:
    answers = []
    for more in ((), ("--spark",)):
        line, environment = command(broker, tmp_path, "balance", "--json", *more)
        ran = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 1, ran.stderr
        answers.append(json.loads(ran.stdout))
    assert answers[0] == answers[1]
    [found] = answers[0]
    assert (found["kind"], found["tier"], found["missing"]) == ("loss", "mirror", 1)


def test_watching_prints_what_is_found_and_ends_cleanly(broker: Broker, tmp_path: Path) -> None:
    line, environment = command(broker, tmp_path, "watch", "--interval", "1")
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("loss in orders, bucket "), process.stderr.read() if process.stderr else ""
        assert first.rstrip().endswith("tier mirror: 1 of 3 records of source")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
