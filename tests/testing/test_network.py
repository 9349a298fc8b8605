"""A network of relays: bytes pass, wait during a cut, and arrive after it heals."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ottla.testing import Cluster
from ottla.testing.network import Network
from ottla.testing.ports import free_ports


class Link:
    """A server, a relay to it, and both ends of a connection through the relay."""

    def __init__(self, network: Network, stack: ExitStack) -> None:
        self._stack = stack
        self.server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.server.settimeout(5)
        self.address: tuple[str, int] = self.server.getsockname()
        self.port = network.link("caller", "called", *self.address)
        soon(lambda: listens(self.port))
        self.near = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=5))
        self.near.sendall(b"hello")
        self.far = self.accept(b"hello")

    def accept(self, greeting: bytes) -> socket.socket:
        """Return the next connection with data. The relay itself probes from time to time for a listener."""
        while True:
            far = self._stack.enter_context(self.server.accept()[0])
            far.settimeout(5)
            try:
                if far.recv(100) == greeting:
                    return far
            except ConnectionResetError:
                pass

    def call(self, greeting: bytes) -> socket.socket:
        caller = self._stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=5))
        caller.sendall(greeting)
        return caller


@pytest.fixture
def network() -> Iterator[Network]:
    running = Network()
    yield running
    running.close()


@pytest.fixture
def link(network: Network) -> Iterator[Link]:
    with ExitStack() as stack:
        yield Link(network, stack)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset, if it is being closed
        return False
    return True


def soon(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def says_nothing(end: socket.socket) -> bool:
    end.settimeout(0.2)
    try:
        return not end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(5)


def test_what_is_said_while_it_is_cut_comes_when_it_is_whole(network: Network, link: Link) -> None:
    network.cut("caller", "called")
    network.cut("called", "caller")
    link.near.sendall(b"question")
    link.far.sendall(b"news")
    assert says_nothing(link.far)
    assert says_nothing(link.near)
    network.heal()
    assert link.far.recv(100) == b"question"
    assert link.near.recv(100) == b"news"


def test_one_way_can_be_cut_alone(network: Network, link: Link) -> None:
    network.cut("called", "caller")
    link.near.sendall(b"question")
    assert link.far.recv(100) == b"question"
    link.far.sendall(b"answer")
    assert says_nothing(link.near)


def test_who_calls_while_it_is_cut_is_left_without_an_answer(network: Network, link: Link) -> None:
    network.cut("caller", "called")
    caller = link.call(b"late")
    assert says_nothing(caller)
    network.heal()
    link.accept(b"late").sendall(b"at last")
    assert caller.recv(100) == b"at last"


def test_other_ways_are_not_cut(network: Network, link: Link) -> None:
    network.cut("caller", "somebody else")
    link.near.sendall(b"question")
    assert link.far.recv(100) == b"question"


def test_a_process_that_ends_is_noticed_as_without_a_relay(link: Link) -> None:
    link.server.close()
    link.far.close()
    assert link.near.recv(100) == b""
    assert not listens(link.port)
    with socket.create_server(link.address):
        soon(lambda: listens(link.port))


def test_who_refuses_breaks_connections_and_takes_no_new_ones(network: Network, link: Link) -> None:
    network.cut("caller", "called", refuse=True)
    assert link.near.recv(100) == b""
    assert not listens(link.port)
    network.heal()
    soon(lambda: listens(link.port))


def test_nobody_is_refused_while_it_is_cut_though_nobody_is_there(network: Network) -> None:
    [port] = free_ports(1)
    relayed = network.link("caller", "called", "127.0.0.1", port)
    assert not listens(relayed)
    network.cut("caller", "called")
    soon(lambda: listens(relayed))
    network.heal()
    soon(lambda: not listens(relayed))


def test_much_passes_unchanged(link: Link) -> None:
    sent = bytes(range(256)) * 20_000
    received = bytearray()
    link.near.setblocking(False)
    position = 0
    while len(received) < len(sent):
        if position < len(sent):
            try:
                position += link.near.send(sent[position : position + 100_000])
            except BlockingIOError:
                received += link.far.recv(1 << 20)
        else:
            received += link.far.recv(1 << 20)
    assert received == sent


def test_a_cluster_that_is_not_made_for_faults_says_so() -> None:
    cluster = Cluster(3)
    try:
        for fault in (
            lambda: cluster.cut(0),
            cluster.heal,
            lambda: cluster.skew(0, 1),
            lambda: cluster.fill_disk(0),
        ):
            with pytest.raises(RuntimeError, match="faults=True"):
                fault()
    finally:
        cluster.close()
