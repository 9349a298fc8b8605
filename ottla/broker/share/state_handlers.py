"""What brokers ask share coordinators (KIP-932): five requests of one form, partition by partition."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.share.share_coordinator import ShareStateStore, ShareUpdate
from ottla.coordinator.share.state_records import UNINITIALIZED, ShareKey, ShareState, state_batches
from ottla.protocol.codec import Request, Response, Struct
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import delete_share_group_state as delete_state
from ottla.protocol.messages import initialize_share_group_state as initialize_state
from ottla.protocol.messages import read_share_group_state as read_state
from ottla.protocol.messages import read_share_group_state_summary as read_summary
from ottla.protocol.messages import write_share_group_state as write_state

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_NO_TOPIC = bytes(16)


class StateRpc(NamedTuple):
    """One of the five: `ask` puts the question about one partition to a coordinator that is here."""

    request: type[Request]
    response: type[Response]
    topic: type[Struct]
    topic_result: type[Struct]
    result: type[Struct]
    version: int
    ask: Callable[[ShareStateStore, ShareKey, Any], Any]


def _initialize(
    store: ShareStateStore, key: ShareKey, asked: initialize_state.PartitionData
) -> Awaitable[None] | None:
    return store.initialize(key, asked.state_epoch, asked.start_offset)


def _read(store: ShareStateStore, key: ShareKey, asked: read_state.PartitionData) -> Any:
    found = store.read(key, asked.leader_epoch)
    return _read_result(found) if isinstance(found, ShareState) else _later(found, _read_result)


def _read_result(state: ShareState) -> read_state.PartitionResult:
    return read_state.PartitionResult(
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            read_state.StateBatch(
                first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count
            )
            for first, last, kind, count in state.batches()
        ],
    )


def _write(store: ShareStateStore, key: ShareKey, asked: write_state.PartitionData) -> Awaitable[None] | None:
    try:
        batches = list(state_batches(asked.state_batches))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    update = ShareUpdate(
        asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches
    )
    return store.write(key, update)


def _delete(
    store: ShareStateStore, key: ShareKey, asked: delete_state.PartitionData
) -> Awaitable[None] | None:
    return store.delete(key)


def _summarize(store: ShareStateStore, key: ShareKey, asked: read_summary.PartitionData) -> Any:
    found = store.summary(key, asked.leader_epoch)
    if found is None or isinstance(found, ShareState):
        return _summary_result(found)
    return _later(found, _summary_result)


def _summary_result(state: ShareState | None) -> read_summary.PartitionResult:
    if state is None:
        return read_summary.PartitionResult(start_offset=UNINITIALIZED)
    return read_summary.PartitionResult(
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete,
    )


async def _later(pending: Awaitable[Any], convert: Callable[[Any], Struct]) -> Struct:
    return convert(await pending)


INITIALIZE = StateRpc(
    initialize_state.InitializeShareGroupStateRequest,
    initialize_state.InitializeShareGroupStateResponse,
    initialize_state.InitializeStateData,
    initialize_state.InitializeStateResult,
    initialize_state.PartitionResult,
    0,
    _initialize,
)
READ = StateRpc(
    read_state.ReadShareGroupStateRequest,
    read_state.ReadShareGroupStateResponse,
    read_state.ReadStateData,
    read_state.ReadStateResult,
    read_state.PartitionResult,
    0,
    _read,
)
WRITE = StateRpc(
    write_state.WriteShareGroupStateRequest,
    write_state.WriteShareGroupStateResponse,
    write_state.WriteStateData,
    write_state.WriteStateResult,
    write_state.PartitionResult,
    1,
    _write,
)
DELETE = StateRpc(
    delete_state.DeleteShareGroupStateRequest,
    delete_state.DeleteShareGroupStateResponse,
    delete_state.DeleteStateData,
    delete_state.DeleteStateResult,
    delete_state.PartitionResult,
    0,
    _delete,
)
SUMMARIZE = StateRpc(
    read_summary.ReadShareGroupStateSummaryRequest,
    read_summary.ReadShareGroupStateSummaryResponse,
    read_summary.ReadStateSummaryData,
    read_summary.ReadStateSummaryResult,
    read_summary.PartitionResult,
    1,
    _summarize,
)


async def serve(broker: Broker, rpc: StateRpc, request: Any) -> Any:
    """Answer another broker. Everything is begun before anything is waited for."""
    store = broker.sharing.store
    names: list[tuple[bytes, int]] = []
    answers: list[Any] = []
    for topic in request.topics:
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            names.append((topic.topic_id, asked.partition))
            try:
                if not key.group_id or key.topic_id == _NO_TOPIC or key.partition < 0:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                answers.append(rpc.ask(store, key, asked))
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
