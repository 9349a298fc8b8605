"""A worker with a RecordingEngine in a process of its own, which can be killed. Its argument is a file of JSON."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from ottla.spark.connect.config.worker_config import WorkerConfig
from ottla.spark.connect.worker.server import ConnectServer
from tests.spark.connect.worker.recording_engine import RecordingEngine


async def run(file: Path, properties: dict[str, str]) -> None:
    server = ConnectServer(WorkerConfig.from_properties(properties), RecordingEngine)
    await server.start()
    await asyncio.to_thread(file.with_suffix(".url").write_text, server.urls[0])
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()
    await server.stop()


if __name__ == "__main__":
    given = Path(sys.argv[1])
    asyncio.run(run(given, json.loads(given.read_text())))
