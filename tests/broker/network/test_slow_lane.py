"""Promise: jobs take turns, the loop serves other clients in between, and large messages are freed in slices."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.broker.network.slow_lane import SlowLane, Work, take_apart
from ottla.broker.network.split import Split
from ottla.protocol.messages.cluster import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def spin(name: str, turns: int, said: list[str]) -> Work[str]:
    for _ in range(turns):
        said.append(name)
        deadline = asyncio.get_running_loop().time() + 0.003  # longer than any slice
        while asyncio.get_running_loop().time() < deadline:
            pass
        yield None
    return name


def test_jobs_take_turns_and_others_run_in_between() -> None:
    async def scenario() -> None:
        lane = SlowLane()
        said: list[str] = []
        done = [asyncio.get_running_loop().create_future() for _ in range(2)]
        for name, future in zip("ab", done, strict=True):
            lane.run(spin(name, 3, said), lambda result, error, future=future: future.set_result(result))
        turns = 0
        while not all(future.done() for future in done):
            await asyncio.sleep(0)
            turns += 1
        assert said == ["a", "b", "a", "b", "a", "b"]
        assert turns >= 6
        assert [future.result() for future in done] == ["a", "b"]

    run(scenario())


def test_a_job_waits_for_what_it_yields() -> None:
    async def scenario() -> None:
        lane = SlowLane()
        ended = asyncio.get_running_loop().create_future()

        async def fail() -> None:
            raise KeyError("no")

        def work() -> Work[list[object]]:
            found: list[object] = [(yield asyncio.sleep(0.001, "slept"))]
            try:
                yield fail()
            except KeyError as error:
                found.append(str(error))
            return found

        lane.run(work(), lambda result, error: ended.set_result((result, error)))
        assert await ended == (["slept", "'no'"], None)

    run(scenario())


def test_a_job_that_is_stopped_says_nothing_more() -> None:
    async def scenario() -> None:
        lane = SlowLane()
        said: list[str] = []
        job = lane.run(spin("a", 1000, said), lambda result, error: said.append("done"))
        await asyncio.sleep(0)
        job.stop()
        last = asyncio.get_running_loop().create_future()
        lane.run(spin("b", 1, said), lambda result, error: last.set_result(None))
        await last
        assert said == ["a", "b"]

    run(scenario())


def test_requests_wait_for_memory_and_small_ones_pass_large_ones() -> None:
    async def scenario() -> None:
        lane = SlowLane()
        begun: list[str] = []
        megabyte = 1 << 20
        lane.enter(16 * megabyte, lambda: begun.append("first"))
        lane.enter(16 * megabyte, lambda: begun.append("second"))
        lane.enter(megabyte, lambda: begun.append("small"))
        assert begun == ["first", "small"]
        lane.leave(16 * megabyte)
        assert begun == ["first", "small", "second"]

    run(scenario())


def test_the_garbage_collector_spares_old_objects_while_there_is_work_and_no_longer() -> None:
    async def scenario() -> None:
        lane = SlowLane()
        last = asyncio.get_running_loop().create_future()
        before = gc.get_threshold()
        lane.run(spin("a", 2, []), lambda result, error: last.set_result(gc.get_threshold()))
        young, *older = await last
        assert young == before[0]
        assert min(older) > 1_000_000
        await asyncio.sleep(0)
        assert gc.get_threshold() == before

    run(scenario())


def test_a_message_is_taken_apart_without_its_short_lists() -> None:
    replicas = [1, 2, 3]
    partitions = [MetadataResponsePartition(replica_nodes=replicas) for _ in range(1000)]
    topics = [MetadataResponseTopic(partitions=partitions), *(MetadataResponseTopic() for _ in range(1000))]
    response = MetadataResponse(topics=topics)
    slices = sum(1 for _ in take_apart(response))
    assert slices > 30
    assert topics == partitions == []
    assert replicas == [1, 2, 3]


@pytest.mark.parametrize("sizes", [[3], [64], [65], [1000], [1] * 200, [63, 2, 500, 1, 0, 64, 64]])
def test_a_request_is_cut_and_its_answers_make_one_response(sizes: list[int]) -> None:
    split = Split("topics.partitions", "topics.partitions")
    names = [f"t{number}" for number in range(len(sizes))]
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=at) for at in range(size)]
            )
            for name, size in zip(names, sizes, strict=True)
        ],
    )
    whole: OffsetDeleteResponse | None = None
    for part, depth in split.parts(request):
        assert isinstance(part, OffsetDeleteRequest)
        assert part.group_id == "g"
        assert sum(len(topic.partitions) for topic in part.topics) <= 64
        answer = OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(partition_index=each.partition_index)
                        for each in topic.partitions
                    ],
                )
                for topic in part.topics
            ]
        )
        if whole is None:
            whole = answer
        else:
            split.merge(whole, answer, depth)
    assert whole is not None
    assert [topic.name for topic in whole.topics] == names
    assert [[each.partition_index for each in topic.partitions] for topic in whole.topics] == [
        list(range(size)) for size in sizes
    ]
