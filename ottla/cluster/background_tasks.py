"""Start and stop background tasks that no caller awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

_AGAIN_SECONDS = 0.2


def start_task(tasks: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Run `work` in the background. `tasks` holds a reference until it ends, because the event loop keeps none."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks until all have ended.

    One cancellation is not enough: before Python 3.12, `asyncio.wait_for` swallows a cancellation that arrives together
    with its result.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_AGAIN_SECONDS)
