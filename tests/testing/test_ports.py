"""A reserved port is available to its owner, and to nobody else."""

from __future__ import annotations

import socket
import sys

import pytest

from ottla.testing.ports import ReservedPorts, free_ports


def test_somebody_can_listen_at_a_reserved_port_again_and_again() -> None:
    reserved = ReservedPorts(2)
    for port in reserved.numbers * 2:
        address = ("127.0.0.1", port)
        with socket.create_server(address) as server, socket.create_connection(address) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


@pytest.mark.skipif(sys.platform != "linux", reason="ports can be held only there")
def test_nobody_gets_a_reserved_port_by_chance() -> None:
    reserved = ReservedPorts(1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", reserved.numbers[0]))
    before = reserved.numbers[0]
    del reserved
    with socket.socket() as other:
        other.bind(("127.0.0.1", before))


def test_free_ports_are_different_ones() -> None:
    assert len(set(free_ports(20))) == 20
