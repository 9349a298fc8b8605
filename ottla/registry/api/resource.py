"""Base of all resources: access to the node, and forwarding of writes to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.http import Request, Response
from ottla.http.forwarding import Forwarder, PeerUnreachable
from ottla.registry.election.forwarding import FORWARDED, MARKS, READ_UNTIL
from ottla.registry.errors import forwarding_failed, unknown_leader
from ottla.registry.model.parsing import parse_version
from ottla.registry.model.records import SchemaVersion, Write
from ottla.registry.model.state import State
from ottla.registry.node import Node, NotLeader
from ottla.registry.security.authorization import Rights

T = TypeVar("T")


class Resource:
    def __init__(self, node: Node, forwarder: Forwarder, rights: Rights) -> None:
        self.node = node
        self.rights = rights
        self._forwarder = forwarder

    @property
    def state(self) -> State:
        return self.node.state

    def formatted(self, request: Request, version: SchemaVersion) -> str | None:
        """Return the schema in the requested `format=`, which may inline its references. None without `format=`."""
        wanted = request.query.get("format", "").strip()
        if not wanted:
            return None
        self.rights.check_references(request, version.subject, version.references)
        return parse_version(self.state, version).formatted(wanted)

    async def write(
        self,
        request: Request,
        decide: Callable[[State], tuple[T, Sequence[Write]]],
        respond: Callable[[T], Response],
        body: bytes = b"",
        *,
        takes_long: bool = False,
    ) -> Response:
        """Run a write here if this node leads, otherwise on the leader; wait during an election.

        `body` is the request's body, which can be read only once.
        """
        deadline = asyncio.get_running_loop().time() + self.node.settings.timeout
        while True:
            leader = await self.node.find_leader()
            try:
                if leader == self.node.identity:
                    response = respond(await self.node.execute(decide, takes_long=takes_long))
                    if FORWARDED in request.headers:
                        response.headers = {READ_UNTIL: str(self.node.store.next_offset - 1)}
                    return response
                if FORWARDED in request.headers:
                    raise unknown_leader()  # the other node considers us the leader, wrongly
                answer = await self._forwarder.pass_on(leader, request, body, marks=MARKS)
                return await self._read_too(answer)
            except NotLeader:
                pass
            except PeerUnreachable as error:
                if error.was_sent or asyncio.get_running_loop().time() > deadline:
                    raise forwarding_failed(
                        f"Error while forwarding the request to the leader: {error}"
                    ) from None
            if asyncio.get_running_loop().time() > deadline:
                raise unknown_leader()
            await asyncio.sleep(self.node.settings.client.retry_backoff)

    async def _read_too(self, response: Response) -> Response:
        """Return the leader's response once this node has read the written records as well."""
        offset = (response.headers or {}).get(READ_UNTIL, "")
        if offset.isdecimal():
            await self.node.store.read_until(int(offset))
        response.headers = None
        return response
