"""A worker in its own process, for tests that kill it: `python -m tests.connect.runtime.worker_process SETTINGS
CONFIG…`, all of them JSON. It runs its connectors on Spark until killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from ottla.python_process import start_child

ROOT = Path(__file__).parents[3]


class WorkerProcess:
    def __init__(self, directory: Path, settings: Mapping[str, str], *configs: Mapping[str, str]) -> None:
        import os

        self.output = directory / "worker.log"
        with self.output.open("ab") as log:
            self._process: subprocess.Popen[bytes] = start_child(
                [
                    sys.executable,
                    "-m",
                    "tests.connect.runtime.worker_process",
                    *(json.dumps(dict(each)) for each in (settings, *configs)),
                ],
                log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def main() -> None:
    from ottla.connect.config.worker_config import WorkerConfig
    from ottla.connect.runtime.engine import ConnectorStatus, Engine
    from ottla.connect.runtime.spark.spark_session import connect_session

    settings, *configs = map(json.loads, sys.argv[1:])
    worker = WorkerConfig.from_properties(settings)
    engine = Engine(connect_session(worker), worker)

    def say(name: str, status: ConnectorStatus) -> None:
        print(name, status, flush=True)

    for config in configs:
        engine.start(config["name"], config, on_change=lambda status, name=config["name"]: say(name, status))
    threading.Event().wait()


if __name__ == "__main__":
    main()
