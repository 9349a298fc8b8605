"""Listeners in Kafka's notation."""

from __future__ import annotations

import socket

import pytest

from ottla.metadata.configs.listeners import (
    Listener,
    ListenerError,
    advertised_endpoints,
    check_advertised,
    check_bound,
    parse_listeners,
    parse_protocol_map,
)
from ottla.metadata.nodes import Endpoint

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "INTERNAL": "SASL_SSL"}


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "PLAINTEXT", "", 9092)),
        ("PLAINTEXT://localhost:0", Listener("PLAINTEXT", "PLAINTEXT", "localhost", 0)),
        ("plaintext://0.0.0.0:1", Listener("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 1)),
        ("SSL://[::1]:9093", Listener("SSL", "SSL", "::1", 9093)),
        ("INTERNAL://kafka-0.kafka.svc:9094", Listener("INTERNAL", "SASL_SSL", "kafka-0.kafka.svc", 9094)),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, listener: Listener) -> None:
    assert parse_listeners([text], PROTOCOLS) == (listener,)


@pytest.mark.parametrize(
    "text", ["", "9092", ":9092", "localhost:9092", "PLAINTEXT://", "PLAINTEXT://:", "PLAINTEXT://a b:1"]
)
def test_what_is_not_a_listener_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(ListenerError, match="write NAME://host:port, such as PLAINTEXT://:9092"):
        parse_listeners([text], PROTOCOLS)


def test_a_port_ends_at_65535() -> None:
    with pytest.raises(ListenerError, match="is not a listener"):
        parse_listeners(["PLAINTEXT://:65536"], PROTOCOLS)


def test_a_listener_needs_a_protocol() -> None:
    with pytest.raises(ListenerError, match=r"known for MINE: add it to listener\.security\.protocol\.map"):
        parse_listeners(["MINE://:1"], PROTOCOLS)


def test_a_name_is_used_once() -> None:
    with pytest.raises(ListenerError, match="SSL appears twice"):
        parse_listeners(["SSL://:1", "ssl://:2"], PROTOCOLS)


def test_an_address_is_used_once_unless_it_is_any_free_port() -> None:
    with pytest.raises(ListenerError, match="PLAINTEXT and SSL want the same port"):
        check_bound(parse_listeners(["PLAINTEXT://:1", "SSL://:1"], PROTOCOLS))
    check_bound(parse_listeners(["PLAINTEXT://:0", "SSL://:0"], PROTOCOLS))
    with pytest.raises(ListenerError, match="at least one"):
        check_bound([])


def test_a_protocol_map_is_a_list_of_pairs() -> None:
    assert parse_protocol_map("ext:ssl, INT:PLAINTEXT,") == {"EXT": "SSL", "INT": "PLAINTEXT"}


@pytest.mark.parametrize("text", ["EXT", "EXT:", "EXT:HTTP", ":SSL"])
def test_a_pair_names_a_protocol_that_exists(text: str) -> None:
    with pytest.raises(ListenerError, match="write NAME:PROTOCOL with one of PLAINTEXT, SSL"):
        parse_protocol_map(text)


def test_a_pair_comes_once() -> None:
    with pytest.raises(ListenerError, match="EXT appears twice"):
        parse_protocol_map("EXT:SSL,ext:PLAINTEXT")


def test_clients_are_told_the_port_that_was_picked_and_a_host_they_can_name() -> None:
    listeners = parse_listeners(["PLAINTEXT://:0", "SSL://127.0.0.1:9093"], PROTOCOLS)
    assert advertised_endpoints(listeners, {"PLAINTEXT": 40000}) == (
        Endpoint("PLAINTEXT", "PLAINTEXT", socket.gethostname(), 40000),
        Endpoint("SSL", "SSL", "127.0.0.1", 9093),
    )


def test_nobody_is_told_to_connect_to_every_interface_or_to_nothing() -> None:
    bound = parse_listeners(["PLAINTEXT://:1"], PROTOCOLS)
    with pytest.raises(ListenerError, match=r"clients cannot connect to 0\.0\.0\.0"):
        check_advertised(parse_listeners(["PLAINTEXT://0.0.0.0:1"], PROTOCOLS), bound)
    with pytest.raises(ListenerError, match="SSL is not among the listeners"):
        check_advertised(parse_listeners(["SSL://h:1"], PROTOCOLS), bound)
