"""Helper processes of the broker leave nothing behind, whenever they are released."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings

import pytest

from ottla.helper_process import HelperProcess

_MODULE = "ottla.log.cleaner.worker.main"


@pytest.mark.parametrize("passes", range(6))
def test_a_start_that_is_cancelled_leaves_no_process(passes: int) -> None:
    """The start has not begun, runs in a thread, or is connecting."""

    async def cancel_after_some_passes() -> tuple[int | None, HelperProcess]:
        helper = HelperProcess(_MODULE)
        starting = asyncio.ensure_future(helper.start())
        for _ in range(passes):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        pid = helper.pid
        await helper.end()
        return pid, helper

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pid, helper = asyncio.run(cancel_after_some_passes())
        gc.collect()  # reveals a socket or process that nobody closed
    assert helper.pid is None
    if pid is not None:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_one_that_ended_can_be_started_again() -> None:
    async def twice() -> list[int]:
        helper = HelperProcess(_MODULE)
        codes = []
        for _ in range(2):
            await helper.start()
            assert helper.pid is not None
            codes.append(await helper.end())
            assert helper.pid is None
        return codes

    assert asyncio.run(twice()) == [0, 0]
