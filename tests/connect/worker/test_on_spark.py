"""Promise: a worker runs connectors on Spark, its documentation page works, and a killed worker is replaced."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.measuring.wire import free_port
from ottla.python_process import start_child
from ottla.testing import Broker
from tests.connect.worker.workers import SOURCE, call, distributed_properties, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

PAGE = (Path(__file__).parents[3] / "docs" / "tutorials" / "first-connector.md").read_text()
COMMANDS = [
    command
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for command in block.strip().split("\n")
    if not command.startswith("ottla start")  # the test starts it on free ports
]
BIN = Path(sys.executable).parent
# Entry points of the scripts of these names.
_PROGRAMS = {
    "ottla": "from ottla.cli.main import main; main()",
    "connect-distributed": "from ottla.cli.kafka.connect import distributed; distributed()",
}


@contextmanager
def running(directory: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start an installed command and wait until it is ready."""
    log = directory / f"{command[0]}-{free_port()}.log"
    with log.open("wb") as output:
        process = start_child(
            [sys.executable, "-c", _PROGRAMS[command[0]], *command[1:]], output, new_session=True
        )

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        return "is ready." in log.read_text()

    try:
        wait_for(is_ready, "it did not start", 180)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        # Leftovers of a killed worker: its JVM is in the same session.
        with_group = [each for each in (process.pid,) if _has_group(each)]
        for group in with_group:
            os.killpg(group, signal.SIGKILL)


def _has_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_commands_of_the_page_run_as_they_are_printed(tmp_path: Path) -> None:
    assert len(COMMANDS) == 10
    port, rest = free_port(), free_port()
    settings = {
        **os.environ,
        "OTTLA_BOOTSTRAP_SERVER": f"127.0.0.1:{port}",
        "OTTLA_CONNECT_URL": f"http://127.0.0.1:{rest}",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    listen = ("--listen", f"127.0.0.1:{port}", "--data", str(tmp_path / "data"))
    files = ("--connect-files", str(tmp_path))
    with running(tmp_path, "ottla", "start", *listen, "--connect", f"127.0.0.1:{rest}", *files):
        said = {}
        for command in COMMANDS:
            if command == "ottla connect list":
                wait_for(lambda: run("ottla connect list").count("1/1 running") == 2, "they do not run")
            if command.startswith("ottla connect stop"):
                wait_for(lambda: (tmp_path / "copy.txt").exists() and (tmp_path / "copy.txt").read_text())
            if "--set" in command:
                wait_for(lambda: "STOPPED" in run("ottla connect list"), "it does not stop")
            said[command] = run(command)
        assert said["ottla consume lines --from-beginning --max-messages 2"].split() == [
            '"first"',
            '"second"',
        ]
        assert '{"position": 13}' in said["ottla connect offsets lines"]
        wait_for(
            lambda: (tmp_path / "copy.txt").read_text() == "first\nsecond\n" * 2, "it does not begin anew"
        )


def test_another_worker_goes_on_where_a_killed_one_was(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(1000)))
    with Broker(config={"group.min.session.timeout.ms": "1000"}) as broker:
        broker.create_topic("numbers")
        given = distributed_properties(broker.bootstrap_servers, "on-spark")
        given |= {
            "scheduled.rebalance.max.delay.ms": "0",
            "session.timeout.ms": "3000",
            "spark.master": "local[4]",
        }

        def start(number: int) -> tuple[str, str]:
            url = f"http://127.0.0.1:{free_port()}"
            file = tmp_path / f"worker-{number}.properties"
            file.write_text("".join(f"{k}={v}\n" for k, v in {**given, "listeners": url}.items()))
            return url, str(file)

        (_, first_file), (second, second_file) = start(1), start(2)

        def values() -> list[int]:
            return [int(each.value) for each in broker.records("numbers") if each.value and not each.key]

        with running(tmp_path, "connect-distributed", second_file):
            with running(tmp_path, "connect-distributed", first_file) as victim:
                config = {"name": "n", "connector.class": SOURCE, "file": str(lines), "topic": "numbers"}
                # Two connectors: each worker gets one.
                for name in ("n", "idle"):
                    made = {**config, "name": name, "topic": "numbers" if name == "n" else "elsewhere"}
                    assert call(second, "PUT", f"/connectors/{name}/config", made).status == 201
                wait_for(lambda: len(values()) >= 1000, "they did not arrive", 120)
                os.killpg(victim.pid, signal.SIGKILL)
                victim.wait(30)
            with lines.open("a") as more:
                more.writelines(f"{number}\n" for number in range(1000, 2000))
            wait_for(lambda: len(values()) >= 2000, "the other worker did not take over", 120)
            status = call(second, "GET", "/connectors/n/status").body
            assert f"http://{status['connector']['worker_id']}" == second
        assert values() == list(range(2000))
