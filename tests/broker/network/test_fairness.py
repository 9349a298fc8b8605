"""Promise: no request holds the event loop, however large it is and whoever sends it.

Processor time of single callbacks of the loop is measured, not time on the wall: a busy machine does not matter.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
import uvloop

from ottla.broker.network.dispatch import served_keys
from ottla.protocol.messages import API_NAMES
from ottla.testing import Broker
from tests.broker.network.large_requests import build, frame, large_requests

ENTRIES = 10_000
# A slice lasts two milliseconds. Without slices ten thousand entries take thirty to a hundred.
MOST_SECONDS = 0.025
CASES = [
    pytest.param(key, what, id=f"{API_NAMES[key]}-{what}")
    for key in sorted(served_keys())
    for what, *_ in large_requests(key)
]


class LoopWatch:
    """The longest callback of the broker's event loop, in processor time."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.what = ""

    def run(self, handle: asyncio.Handle) -> None:
        began = time.thread_time()
        _RUN(handle)
        taken = time.thread_time() - began
        if taken > self.longest and threading.current_thread().name == "ottla-broker":
            self.longest, self.what = taken, repr(handle)

    def reset(self) -> None:
        self.longest = 0.0


_RUN = asyncio.Handle._run


@pytest.fixture(scope="module")
def watch() -> Iterator[LoopWatch]:
    found = LoopWatch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", lambda handle: found.run(handle))
        patch.setattr(uvloop, "new_event_loop", asyncio.SelectorEventLoop)
        yield found


@pytest.fixture(scope="module", params=["everybody may do everything", "the client may do nothing"])
def broker(request: pytest.FixtureRequest, watch: LoopWatch) -> Iterator[Broker]:
    config = {}
    if request.param == "the client may do nothing":
        config = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }
    with Broker(config=config) as running:
        yield running


def answer_to(broker: Broker, data: bytes) -> int:
    """Send a request; returns the size of the response, -1 if the broker hangs up instead."""
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        try:
            sock.sendall(data)
            size = int(struct.unpack(">i", _exactly(sock, 4))[0])
            left = size
            while left:
                left -= len(_exactly(sock, min(left, 1 << 20)))
        except ConnectionError:
            return -1
        return size


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return data


@pytest.mark.parametrize(("key", "what"), CASES)
def test_the_largest_request_of_an_api_does_not_hold_the_loop(
    broker: Broker, watch: LoopWatch, key: int, what: str
) -> None:
    [(version, cls, path)] = [found for name, *found in large_requests(key) if name == what]
    data = frame(build(cls, path, ENTRIES), version)
    small = frame(build(cls, path, 1), version)
    answer_to(broker, small)  # imports, generated code, internal topics
    gc.collect()
    watch.reset()
    answer_to(broker, data)
    assert watch.longest < MOST_SECONDS, watch.what
