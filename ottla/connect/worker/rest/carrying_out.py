"""Executes requests in threads, or forwards them to the leader or to the owner of a connector."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import urlencode

from ottla.client.errors import ClientError
from ottla.client.log import Fenced, TooLarge
from ottla.connect.worker import errors
from ottla.connect.worker.distributed.herder import DistributedHerder
from ottla.connect.worker.errors import PassOn, RequestError
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.rest.listeners import parse_address
from ottla.connect.worker.rest.requests import http_error
from ottla.http import HttpError, Request, Response
from ottla.http.forwarding import Forwarder, PeerUnreachable

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Maps the forwarding marker of a request to its next value. The third hop is rejected.
_HOPS = {None: "true", "true": "false"}


class CarryingOut:
    def __init__(self, herder: Herder, forwarder: Forwarder) -> None:
        self._herder = herder
        self._forwarder = forwarder
        self._threads = ThreadPoolExecutor(16, "connect-rest")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def answer(
        self, request: Request, call: Callable[[], T], respond: Callable[[T], Response], body: bytes = b""
    ) -> Response:
        """`body` is the request's body, which can be read only once."""
        try:
            return respond(await self._in_thread(call))
        except PassOn as elsewhere:
            return await self._pass_on(request, elsewhere.url, body)
        except RequestError as error:
            raise http_error(error) from None

    async def _in_thread(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except Fenced as reason:
            _log.warning("A write was refused because another worker has taken over: %s.", reason)
            if isinstance(self._herder, DistributedHerder):
                self._herder.lost_leadership()
            raise errors.rebalance_expected() from None
        except TooLarge as reason:
            raise errors.bad_request(f"The config is larger than the config topic takes: {reason}") from None
        except ClientError as error:
            raise RequestError(500, error.message) from None

    async def _pass_on(self, request: Request, url: str, body: bytes) -> Response:
        forward = request.query.get("forward")
        if forward not in _HOPS:
            raise http_error(errors.conflicting_operation())
        values = [(name, value) for name, value in request.query_values() if name != "forward"]
        query = urlencode([*values, ("forward", _HOPS[forward])])
        try:
            return await self._forwarder.pass_on(parse_address(url), request, body, query=query)
        except (PeerUnreachable, ClientError) as error:
            raise HttpError(500, 500, f"IO Error trying to forward REST request: {error}") from None
