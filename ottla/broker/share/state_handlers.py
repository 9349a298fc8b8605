"""Requests to share coordinators (KIP-932): five APIs of one form, handled partition by partition."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.coordinator.share.share_coordinator import ShareCoordinator, ShareUpdate
from ottla.coordinator.share.state_records import UNINITIALIZED, ShareKey, ShareState, state_batches
from ottla.protocol.codec import Request, Struct
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import response_type, share_state

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_NO_TOPIC = bytes(16)


class StateRpc:
    """One of the five APIs; `ask` calls a local coordinator for one partition.

    The nested message classes follow from the declarations of request and response.
    """

    def __init__(
        self,
        request: type[Request],
        version: int,
        ask: Callable[[ShareCoordinator, ShareKey, Any], Any],
    ) -> None:
        self.request = request
        self.response = response_type(request.api_key)
        self.topic = _entry_of(request, "topics")
        self.topic_result = _entry_of(self.response, "results")
        self.result = _entry_of(self.topic_result, "partitions")
        self.version = version
        self.ask = ask


def _entry_of(message: type[Struct], name: str) -> type[Struct]:
    entry = message.fields[name].struct
    assert entry is not None
    return entry


def _initialize(
    coordinator: ShareCoordinator, key: ShareKey, asked: share_state.InitializeStatePartitionData
) -> Awaitable[None] | None:
    return coordinator.initialize(key, asked.state_epoch, asked.start_offset)


def _read(coordinator: ShareCoordinator, key: ShareKey, asked: share_state.ReadStatePartitionData) -> Any:
    found = coordinator.read(key, asked.leader_epoch)
    return _read_result(found) if isinstance(found, ShareState) else _later(found, _read_result)


def _read_result(state: ShareState) -> share_state.ReadStatePartitionResult:
    return share_state.ReadStatePartitionResult(
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            share_state.StateBatch(
                first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count
            )
            for first, last, kind, count in state.batches()
        ],
    )


def _write(
    coordinator: ShareCoordinator, key: ShareKey, asked: share_state.WriteStatePartitionData
) -> Awaitable[None] | None:
    try:
        batches = list(state_batches(asked.state_batches))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    update = ShareUpdate(
        asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches
    )
    return coordinator.write(key, update)


def _delete(
    coordinator: ShareCoordinator, key: ShareKey, asked: share_state.DeleteStatePartitionData
) -> Awaitable[None] | None:
    return coordinator.delete(key)


def _summarize(
    coordinator: ShareCoordinator, key: ShareKey, asked: share_state.ReadSummaryPartitionData
) -> Any:
    found = coordinator.summary(key, asked.leader_epoch)
    if found is None or isinstance(found, ShareState):
        return _summary_result(found)
    return _later(found, _summary_result)


def _summary_result(state: ShareState | None) -> share_state.ReadSummaryPartitionResult:
    if state is None:
        return share_state.ReadSummaryPartitionResult(start_offset=UNINITIALIZED)
    return share_state.ReadSummaryPartitionResult(
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete,
    )


async def _later(pending: Awaitable[Any], convert: Callable[[Any], Struct]) -> Struct:
    return convert(await pending)


INITIALIZE = StateRpc(share_state.InitializeShareGroupStateRequest, 0, _initialize)
READ = StateRpc(share_state.ReadShareGroupStateRequest, 0, _read)
WRITE = StateRpc(share_state.WriteShareGroupStateRequest, 1, _write)
DELETE = StateRpc(share_state.DeleteShareGroupStateRequest, 0, _delete)
SUMMARIZE = StateRpc(share_state.ReadShareGroupStateSummaryRequest, 1, _summarize)


async def serve(broker: Broker, rpc: StateRpc, request: Any) -> Any:
    """Answer another broker. All partitions start before any is awaited."""
    coordinator = broker.sharing.coordinator
    names: list[tuple[bytes, int]] = []
    answers: list[Any] = []
    for topic in request.topics:
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            names.append((topic.topic_id, asked.partition))
            try:
                if not key.group_id or key.topic_id == _NO_TOPIC or key.partition < 0:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                answers.append(rpc.ask(coordinator, key, asked))
            except KafkaError as error:
                answers.append(error)
    pending = [each for each in answers if inspect.isawaitable(each)]
    if pending:
        done = iter(await asyncio.gather(*pending, return_exceptions=True))
        answers = [next(done) if inspect.isawaitable(each) else each for each in answers]
    topics: dict[bytes, Any] = {}
    for (topic_id, partition), answer in zip(names, answers, strict=True):
        if isinstance(answer, KafkaError):
            result: Any = rpc.result(error_code=answer.code, error_message=answer.message)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            result = rpc.result() if answer is None else answer
        result.partition = partition
        if topic_id not in topics:
            topics[topic_id] = rpc.topic_result(topic_id=topic_id)
        topics[topic_id].partitions.append(result)
    return rpc.response(results=list(topics.values()))
