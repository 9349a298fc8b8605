"""Group API tests without a socket: an in-memory coordinator and requests in every version."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.network.request_context import Api, ApiVersion, RequestContext
from ottla.coordinator.groups.base.base_group import GroupConfig
from ottla.coordinator.groups.group_coordinator import GroupCoordinator
from ottla.protocol.codec import Request
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.broker.network.large_requests import to_the_end

MODULES = {
    8: "k08_offset_commit",
    9: "k09_offset_fetch",
    10: "k10_find_coordinator",
    11: "k11_join_group",
    12: "k12_heartbeat",
    13: "k13_leave_group",
    14: "k14_sync_group",
    15: "k15_describe_groups",
    16: "k16_list_groups",
    42: "k42_delete_groups",
    47: "k47_offset_delete",
}
TOPIC_ID, UNKNOWN_ID = b"t" * 16, b"x" * 16
NONE = ErrorCode.NONE


class MemoryLog:
    """A log with immediate durability."""

    def append(self, partition: int, records: object, now_ms: int) -> None:
        return None

    async def read(self, partition: int) -> Any:
        for _ in ():
            yield _


@dataclass
class FakeBroker:
    groups: GroupCoordinator
    image: SimpleNamespace = field(default_factory=SimpleNamespace)
    failing: ErrorCode | None = None

    async def ensure_internal_topic(self, name: str) -> None:
        if self.failing:
            raise KafkaError(self.failing)
        if name not in self.image.topics:
            partitions = {i: SimpleNamespace(leader=7 if i % 2 else -1) for i in range(50)}
            self.image.topics[name] = SimpleNamespace(name=name, topic_id=b"o" * 16, partitions=partitions)

    def leader_of(self, partition: SimpleNamespace) -> int:
        leader: int = partition.leader
        return leader

    def node(self, broker_id: int, listener: str) -> SimpleNamespace | None:
        assert listener == "PLAINTEXT"
        return SimpleNamespace(id=7, host="here", port=9092) if broker_id == 7 else None


class Wire:
    """Encode and decode each request and response in a given version around the handler call."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker

    @classmethod
    async def open(cls, **config: int) -> Wire:
        groups = GroupCoordinator(GroupConfig(**{"initial_rebalance_delay_ms": 0, **config}), MemoryLog())
        for partition in range(50):
            await groups.runtime.become_leader(partition, 1)
        topic = SimpleNamespace(name="t", topic_id=TOPIC_ID, partitions={0: None, 1: None})
        image = SimpleNamespace(topics={"t": topic}, topics_by_id={TOPIC_ID: topic})
        return cls(FakeBroker(groups, image))

    async def __call__(self, request: Request, version: int) -> Any:
        key = type(request).api_key
        handler = importlib.import_module(f"ottla.broker.apis.{MODULES[key]}")
        connection: Any = SimpleNamespace(
            client_id="client", client_host="127.0.0.1", listener="PLAINTEXT", rights=None
        )
        context = RequestContext(ApiVersion(Api(key, handler.handle), version), connection, correlation_id=1)
        received = type(request).decode(request.encode(version), version)
        response = handler.handle(self.broker, received, context)
        if isinstance(response, Generator):
            response = to_the_end(response)
        if isinstance(response, Awaitable):
            response = await asyncio.wait_for(response, 30)
        return type(response).decode(response.encode(version), version)

    async def join(self, version: int = 9, member_id: str = "", **fields: Any) -> JoinGroupResponse:
        """Join the way a client of that version does."""
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")
            ],
            **fields,
        )
        if version >= 1:
            request.rebalance_timeout_ms = 60_000
        response = await self(request, version)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = response.member_id
            response = await self(request, version)
        return response  # type: ignore[no-any-return]

    async def member(self, **fields: Any) -> str:
        joined = await self.join(**fields)
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        )
        synced = await self(request, 5)
        assert synced.error_code == NONE
        assert synced.assignment == b"mine"
        return joined.member_id


def run(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @wraps(test)
    def wrapper(*args: object, **kwargs: object) -> None:
        asyncio.run(test(*args, **kwargs))

    return wrapper


def versions(first: int, last: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(first, last + 1))
