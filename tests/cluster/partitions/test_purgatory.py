"""The purgatory: operations complete once, by progress, expiration or cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.cluster.partitions.purgatory import DelayedOperation, OffsetWatchers, Purgatory
from ottla.protocol.errors import ErrorCode
from tests.cluster.replicated import until


class Operation(DelayedOperation):
    kind = "Test"

    def __init__(self, purgatory: Purgatory, log: list[str], name: str) -> None:
        super().__init__(purgatory)
        self._log = log
        self._name = name

    def complete(self) -> None:
        super().complete()
        self._log.append(f"{self._name} completes")

    def expire(self) -> None:
        self._log.append(f"{self._name} expires")
        super().expire()


class Watcher:
    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any]] = []

    def try_complete(self, key: Any, progress: int) -> None:
        self.seen.append((key, progress))

    def fail(self, key: Any, error: ErrorCode) -> None:
        self.seen.append((key, error))


async def test_an_operation_expires_at_its_deadline_and_not_earlier() -> None:
    purgatory, log = Purgatory(), list[str]()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 0.05
    purgatory.add(Operation(purgatory, log, "late"), loop.time() + 60)
    purgatory.add(Operation(purgatory, log, "soon"), deadline)
    assert purgatory.sizes() == {"Test": 2}
    await until(lambda: log)
    assert loop.time() > deadline - 0.002
    assert log == ["soon expires", "soon completes"]
    assert purgatory.sizes() == {"Test": 1}
    purgatory.close()


async def test_what_completes_or_is_cancelled_does_not_expire() -> None:
    purgatory, log = Purgatory(), list[str]()
    now = asyncio.get_running_loop().time()
    done, cancelled, last = (Operation(purgatory, log, name) for name in ("done", "cancelled", "last"))
    for operation in (done, cancelled, last):
        purgatory.add(operation, now + 0.02)
    done.complete()
    cancelled.cancel()
    await until(lambda: last.is_complete)
    assert log == ["done completes", "last expires", "last completes"]


async def test_progress_of_one_turn_completes_an_operation_once_and_after_the_turn() -> None:
    purgatory, log = Purgatory(), list[str]()
    operation = Operation(purgatory, log, "it")
    purgatory.add(operation, asyncio.get_running_loop().time() + 60)
    operation.try_complete(None, 1)
    operation.try_complete(None, 2)
    operation.fail(None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not log
    await until(lambda: log)
    await asyncio.sleep(0)
    assert log == ["it completes"]
    assert not purgatory.sizes()["Test"]


async def test_an_expiring_operation_may_make_room_for_an_earlier_one() -> None:
    purgatory, log = Purgatory(), list[str]()
    now = asyncio.get_running_loop().time()

    class Follows(Operation):
        def expire(self) -> None:
            super().expire()
            purgatory.add(Operation(purgatory, log, "next"), now)

    purgatory.add(Follows(purgatory, log, "first"), now + 0.01)
    await until(lambda: len(log) == 4)
    assert log == ["first expires", "first completes", "next expires", "next completes"]
    assert not purgatory.sizes()["Test"]


async def test_an_operation_that_cannot_expire_does_not_keep_others_waiting() -> None:
    purgatory, log = Purgatory(), list[str]()
    now = asyncio.get_running_loop().time()

    class Fails(Operation):
        def expire(self) -> None:
            raise RuntimeError("a defect")

    purgatory.add(Fails(purgatory, log, "first"), now + 0.01)
    purgatory.add(Operation(purgatory, log, "second"), now + 0.01)
    purgatory.add(Operation(purgatory, log, "third"), now + 0.05)
    await until(lambda: len(log) == 4)
    assert log == ["second expires", "second completes", "third expires", "third completes"]


def test_offsets_complete_in_order_whatever_the_order_of_arrival() -> None:
    watchers, watcher = OffsetWatchers(), Watcher()
    for offset in (5, 9, 7):
        watchers.add(offset, watcher, offset)
    watchers.try_complete(4)
    assert not watcher.seen
    watchers.try_complete(8)
    assert watcher.seen == [(5, 8), (7, 8)]
    watchers.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert watcher.seen[2:] == [(9, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert len(watchers) == 0


async def test_operations_that_gave_up_do_not_pile_up() -> None:
    """A partition may stand still for long, while its producers time out and try again."""
    purgatory, watchers = Purgatory(), OffsetWatchers()
    longest = 0
    for offset in range(1000):
        operation = Operation(purgatory, [], "it")
        watchers.add(offset, operation, None)
        longest = max(longest, len(watchers))
        operation.cancel()
        watchers.abandon()
    assert longest <= 3
