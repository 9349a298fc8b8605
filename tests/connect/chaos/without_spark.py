"""A distributed worker without Spark, in its own process. Its argument is a properties file.

Tasks run in threads. With `spark.test.directory` tasks do nothing but hold locks.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from ottla.cli.commands.servers.http_servers import file_properties
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker.server import ConnectServer
from tests.connect.worker.recording_engine import RecordingEngine
from tests.connect.worker.workers import in_threads


async def run(properties: dict[str, str]) -> None:
    engine = RecordingEngine if "spark.test.directory" in properties else in_threads
    server = ConnectServer(WorkerConfig.from_properties(properties), engine)
    await server.start()
    print(f"The worker at {server.urls[0]} is ready.", flush=True)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(run(file_properties(Path(sys.argv[1]))))
