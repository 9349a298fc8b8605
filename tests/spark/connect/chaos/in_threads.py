"""A distributed worker whose tasks run in threads of its process. Its argument is a file of properties."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from ottla.cli.commands.servers.http_servers import file_properties
from ottla.spark.connect.config.worker_config import WorkerConfig
from ottla.spark.connect.worker.server import ConnectServer
from tests.spark.connect.worker.workers import in_threads


async def run(properties: dict[str, str]) -> None:
    server = ConnectServer(WorkerConfig.from_properties(properties), in_threads)
    await server.start()
    print(f"The worker at {server.urls[0]} is ready.", flush=True)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(run(file_properties(Path(sys.argv[1]))))
