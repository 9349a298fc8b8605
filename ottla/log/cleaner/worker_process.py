"""The broker's handle on the cleaner process: started on first use, ended when idle."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from ottla.helper_process import HelperProcess
from ottla.log.cleaner.job import CleanJob

_MODULE = "ottla.log.cleaner.worker.main"


class WorkerDied(Exception):
    """The process ended during a job. The message tells how."""


class WorkerProcess:
    """Invariant: at most one process with at most one job. Owner: the event loop."""

    def __init__(self) -> None:
        self._process = HelperProcess(_MODULE)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def run(self, job: CleanJob) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of a job; the last one is `done`, `failed` or `cancelled`."""
        if self._process.pid is None:
            try:
                await self._process.start()
            except OSError as error:
                raise WorkerDied(f"it could not be started: {error.strerror or error}") from None
        await self._process.send({"op": "clean", "job": job.to_json()})
        while (event := await self._process.receive()) is not None:
            yield event
            if event["event"] in ("done", "failed", "cancelled"):
                return
        code = await self._process.end()
        raise WorkerDied(f"the cleaner's process ended with {'signal' if code < 0 else 'code'} {abs(code)}")

    async def cancel(self) -> None:
        """Ask the running job to stop. Its events continue until it confirms."""
        await self._process.send({"op": "cancel"})

    async def end(self) -> None:
        """End the process. It notices at once when idle, and after a chunk when working."""
        await self._process.end()
