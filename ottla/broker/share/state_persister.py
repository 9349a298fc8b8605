"""Share state: requests to the share coordinator, and the answers of this broker as one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.coordinator.share.share_coordinator import (
    UNINITIALIZED,
    ShareCoordinator,
    ShareKey,
    ShareState,
    ShareUpdate,
    partition_of,
    state_batches,
)
from ottla.metadata.cluster_image import NO_LEADER
from ottla.metadata.nodes import SHARE_GROUP_STATE_TOPIC
from ottla.protocol.codec import Request, Struct
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import response_type, share_state

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.peers import Peers
    from ottla.metadata.cluster_image import ClusterImage

# Requests to share coordinators (KIP-932): five APIs of one form, handled partition by partition.

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


# Calls to local and remote share coordinators, from share-partition leaders and group coordinators.

_FIRST_PAUSE = 0.05
_LAST_PAUSE = 0.5
_RETRIED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class StatePersister:
    """Calls the coordinator of a share-partition, and retries until a deadline while none is available.

    All five requests are idempotent. Owner: the event loop.
    """

    def __init__(
        self,
        broker_id: int,
        coordinator: ShareCoordinator,
        image: ClusterImage,
        peers: Peers,
        patience: float,
    ) -> None:
        self._broker_id = broker_id
        self._local = coordinator
        self._image = image
        self._peers = peers
        self._patience = patience
        self._queues: dict[tuple[int, int, str], _RequestQueue] = {}

    def ask(self, rpc: StateRpc, key: ShareKey, asked: Any) -> Any | Awaitable[Any]:
        """Return the coordinator's result for one partition, or an awaitable. This call or the awaitable raises
        KafkaError.

        `asked.partition` need not be set.
        """
        asked.partition = key.partition
        first = None
        if self._coordinator(key) == self._broker_id:
            try:
                first = rpc.ask(self._local, key, asked)
            except KafkaError as error:
                if error.code not in _RETRIED:
                    raise
            else:
                if not inspect.isawaitable(first):
                    return first
        return self._ask(rpc, key, asked, first)

    async def ask_all(self, rpc: StateRpc, asked: dict[ShareKey, Any]) -> dict[ShareKey, Any]:
        """Return the results for several partitions, with a KafkaError for each failure."""

        async def one(key: ShareKey) -> Any:
            try:
                answer = self.ask(rpc, key, asked[key])
                return await answer if inspect.isawaitable(answer) else answer
            except KafkaError as error:
                return error

        results = await asyncio.gather(*map(one, asked))
        return dict(zip(asked, results, strict=True))

    async def initialize(self, state_epoch: int, starts: Mapping[ShareKey, int]) -> None:
        """Initialize state for a group coordinator. Raises KafkaError if any partition fails.

        Other partitions may have succeeded; the caller can safely retry all.
        """
        asked = {
            key: share_state.InitializeStatePartitionData(state_epoch=state_epoch, start_offset=start)
            for key, start in starts.items()
        }
        _raise_first((await self.ask_all(INITIALIZE, asked)).values())

    async def delete(self, keys: Iterable[ShareKey]) -> None:
        """Delete state for a group coordinator, with the errors of `initialize`."""
        asked = {key: share_state.DeleteStatePartitionData() for key in keys}
        _raise_first((await self.ask_all(DELETE, asked)).values())

    def close(self) -> None:
        self._peers.close()

    # Internals

    def _coordinator(self, key: ShareKey) -> int:
        topic = self._image.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None or not topic.partitions:
            return NO_LEADER
        return topic.partitions[partition_of(key, len(topic.partitions))].leader

    async def _ask(self, rpc: StateRpc, key: ShareKey, asked: Any, first: Awaitable[Any] | None) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return await (first or self._ask_once(rpc, key, asked))
            except KafkaError as error:
                if error.code not in _RETRIED or loop.time() + pause > deadline:
                    raise
            first = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)

    async def _ask_once(self, rpc: StateRpc, key: ShareKey, asked: Any) -> Any:
        coordinator = self._coordinator(key)
        if coordinator == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator == self._broker_id:
            answer = rpc.ask(self._local, key, asked)
            return await answer if inspect.isawaitable(answer) else answer
        name = (coordinator, rpc.request.api_key, key.group_id)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _RequestQueue(self._peers, coordinator, rpc, key.group_id)
        try:
            return await queue.ask(key, asked)
        finally:
            if queue.is_idle and self._queues.get(name) is queue:
                del self._queues[name]


class _RequestQueue:
    """Requests of one API about one group to one broker. While a request is in flight, later ones are merged."""

    def __init__(self, peers: Peers, broker_id: int, rpc: StateRpc, group_id: str) -> None:
        self._peers = peers
        self._broker_id = broker_id
        self._rpc = rpc
        self._group_id = group_id
        self._gathered: dict[tuple[bytes, int], tuple[Any, asyncio.Future[Any]]] = {}
        self._sending: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._sending is None and not self._gathered

    async def ask(self, key: ShareKey, asked: Any) -> Any:
        name = (key.topic_id, key.partition)
        while name in self._gathered:  # a request contains each partition only once
            await asyncio.wait([self._gathered[name][1]])
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._gathered[name] = (asked, future)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())
        return await future

    async def _send(self) -> None:
        try:
            while self._gathered:
                gathered, self._gathered = self._gathered, {}
                try:
                    await self._send_once(gathered)
                finally:
                    for _, future in gathered.values():
                        _fail(future, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        finally:
            self._sending = None

    async def _send_once(self, gathered: dict[tuple[bytes, int], tuple[Any, asyncio.Future[Any]]]) -> None:
        topics: dict[bytes, Any] = {}
        for (topic_id, _), (asked, _) in gathered.items():
            topic = topics.setdefault(topic_id, self._rpc.topic(topic_id=topic_id, partitions=[]))
            topic.partitions.append(asked)
        request = self._rpc.request(group_id=self._group_id, topics=list(topics.values()))
        try:
            response = await self._peers.request(self._broker_id, request, self._rpc.version)
        except OSError:
            return
        for answered in response.results:
            for result in answered.partitions:
                _, future = gathered.get((answered.topic_id, result.partition), (None, None))
                if future is None or future.done():
                    continue
                if result.error_code:
                    _fail(future, KafkaError(ErrorCode(result.error_code), result.error_message))
                else:
                    future.set_result(result)


def _fail(future: asyncio.Future[Any], error: KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # the client may be gone


def _raise_first(results: Iterable[object]) -> None:
    for result in results:
        if isinstance(result, KafkaError):
            raise result
