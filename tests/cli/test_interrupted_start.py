"""Ctrl-C and SIGTERM while Spark starts: answered at once, without a traceback and without a JVM that stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.testing import Broker
from ottla.testing.ports import free_ports

# Under load a process needs longer to be scheduled at all.
SECONDS = 10

EARLY = """
import os, signal, sys

class Early:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Early())
"""

_STATEMENTS = """
CREATE OR REPLACE STREAM s (v INT) WITH (kafka_topic='s', value_format='json', partitions=1);
CREATE OR REPLACE STREAM t AS SELECT * FROM s;
"""


def commands(broker: Broker, folder: Path) -> dict[str, list[str]]:
    at = ["-b", broker.bootstrap_servers]
    port, other = free_ports(2)
    pipeline = folder / "pipeline.py"
    pipeline.write_text("def pipeline(spark, bootstrap_servers):\n    return []\n")
    return {
        "sql": ["sql", *at, "-e", _STATEMENTS],
        "connect": ["connect", "start", *at, "--listen", f"127.0.0.1:{port}"],
        "start": [
            "start", "--listen", "127.0.0.1:0", "--data", str(folder / "data"), "--connect", f"127.0.0.1:{other}",
        ],
        "pipeline": ["pipeline", "run", str(pipeline), *at],
    }  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Broker:
    with Broker() as running:
        yield running


def java_below(pid: int) -> bool:
    found = subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    for child in found:
        try:
            name = Path(f"/proc/{child}/comm").read_text()
        except OSError:
            continue
        if name.startswith("java") or java_below(int(child)):
            return True
    return False


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["sql", "connect", "start", "pipeline"])
def test_a_signal_ends_the_start_of_spark(
    broker: Broker, tmp_path: Path, name: str, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "ottla", *commands(broker, tmp_path)[name]]
    environment = {**os.environ, "OTTLA_STATE_DIR": str(tmp_path / "state")}
    with open(tmp_path / "out", "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=tmp_path,
            env=environment,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not java_below(process.pid):
            assert process.poll() is None, (tmp_path / "out").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
    said = (tmp_path / "out").read_text()
    assert "Stopping…" in said
    assert "Traceback" not in said
    assert "This is a bug" not in said
    assert "Error" not in said
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert left == ""


@pytest.mark.parametrize("module", ["argparse", "ottla.cli.kafka.tool", "ottla.protocol.errors"])
@pytest.mark.parametrize("tool", ["ottla.cli.kafka.topics", "ottla.cli.main"])
def test_ctrl_c_while_a_tool_is_loaded_prints_nothing(tmp_path: Path, tool: str, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(EARLY.format(module=module))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; from {tool} import main; sys.argv[1:] = ['--help']; sys.exit(main())"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert not re.search("KeyboardInterrupt|Traceback", done.stderr), done.stderr
