"""Znode payloads match Kafka's exactly, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata import nodes
from ottla.metadata.nodes import (
    BadNode,
    BrokerRegistration,
    Endpoint,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)

# Written by Kafka 3.9.
BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:22090"],"rack":"r0","jmx_port":-1,"port":22090,"host":"127.0.0.1",'
    b'"version":5,"timestamp":"1794728687270"}'
)
TOPIC = (
    b'{"partitions":{"0":[1,0],"1":[0,1]},"topic_id":"FXnGDxlHTaOs4LUc9CNmGA","adding_replicas":{},'
    b'"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,0]}'
CONTROLLER = b'{"version":2,"brokerid":0,"timestamp":"1794728687500","kraftControllerEpoch":-1}'
CLUSTER = b'{"version":"1","id":"9KlrFrArTkW0uJsAVJtYKQ"}'
CONFIG = b'{"version":1,"config":{"cleanup.policy":"compact"}}'


class TestAsKafkaWritesThem:
    def test_a_broker(self) -> None:
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 22090)
        broker = BrokerRegistration(0, (endpoint,), "r0", 1794728687270)
        assert nodes.encode_broker(broker) == BROKER
        assert nodes.decode_broker(0, BROKER) == broker

    def test_a_topic(self) -> None:
        topic = TopicAssignment({0: (1, 0), 1: (0, 1)}, nodes.decode_uuid("FXnGDxlHTaOs4LUc9CNmGA"))
        assert nodes.encode_topic(topic) == TOPIC
        assert nodes.decode_topic("t1", TOPIC) == topic

    def test_a_partition_state(self) -> None:
        state = PartitionState(leader=1, leader_epoch=0, isr=(1, 0), controller_epoch=1)
        assert nodes.encode_partition_state(state) == STATE
        assert nodes.decode_partition_state("t1", 0, STATE) == state

    def test_the_controller_and_its_epoch(self) -> None:
        assert nodes.encode_controller(0, 1794728687500) == CONTROLLER
        assert nodes.decode_controller(CONTROLLER) == 0
        assert nodes.encode_controller_epoch(1) == b"1"
        assert nodes.decode_controller_epoch(b"12") == 12

    def test_the_cluster_id(self) -> None:
        assert nodes.encode_cluster_id("9KlrFrArTkW0uJsAVJtYKQ") == CLUSTER
        assert nodes.decode_cluster_id(CLUSTER) == "9KlrFrArTkW0uJsAVJtYKQ"

    def test_a_config(self) -> None:
        assert nodes.encode_config({"cleanup.policy": "compact"}) == CONFIG
        assert nodes.decode_config(CONFIG) == {"cleanup.policy": "compact"}
        assert nodes.decode_config(b"") == {}

    def test_a_block_of_producer_ids(self) -> None:
        block = ProducerIdBlock(0, 1000, 1999)
        data = b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}'
        assert nodes.encode_producer_id_block(block) == data
        assert nodes.decode_producer_id_block(data) == block
        assert nodes.decode_producer_id_block(b"") is None

    def test_paths(self) -> None:
        assert nodes.broker_path(0) == "/brokers/ids/0"
        assert nodes.topic_path("t1") == "/brokers/topics/t1"
        assert nodes.partition_state_path("t1", 0) == "/brokers/topics/t1/partitions/0/state"
        assert nodes.topic_config_path("t1") == "/config/topics/t1"
        assert nodes.broker_config_path(3) == "/config/brokers/3"
        assert nodes.broker_config_path(None) == "/config/brokers/<default>"
        assert nodes.delete_topic_path("t1") == "/admin/delete_topics/t1"


class TestOtherVersions:
    def test_a_broker_of_the_first_version_has_host_and_port_only(self) -> None:
        data = b'{"jmx_port":-1,"timestamp":"1","host":"h","port":9092,"version":1}'
        assert nodes.decode_broker(1, data).endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),)

    def test_a_broker_without_a_protocol_map_has_listeners_named_by_protocol(self) -> None:
        data = b'{"version":3,"endpoints":["SSL://[::1]:9093"],"host":null,"port":-1,"timestamp":"1"}'
        assert nodes.decode_broker(1, data).endpoints == (Endpoint("SSL", "SSL", "::1", 9093),)

    def test_a_broker_without_plaintext_tells_old_clients_nothing(self) -> None:
        written = json.loads(nodes.encode_broker(BrokerRegistration(0, (Endpoint("EXT", "SSL", "h", 1),))))
        assert (written["host"], written["port"]) == (None, -1)
        assert "rack" not in written

    def test_a_topic_without_an_id_is_read(self) -> None:
        topic = nodes.decode_topic("old", b'{"version":1,"partitions":{"0":[0]}}')
        assert topic == TopicAssignment({0: (0,)}, None)

    def test_what_a_newer_version_added_is_written_back(self) -> None:
        topic = json.loads(TOPIC) | {"colour": {"deep": [1]}}
        decoded = nodes.decode_topic("t", json.dumps(topic).encode())
        assert json.loads(nodes.encode_topic(decoded)) == topic
        state = json.loads(STATE) | {"leader_recovery_state": 1}
        again = nodes.encode_partition_state(nodes.decode_partition_state("t", 0, json.dumps(state).encode()))
        assert json.loads(again) == state


class TestDamage:
    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"{}", b'{"partitions":3}'])
    def test_a_topic_that_is_not_one_is_named(self, data: bytes) -> None:
        with pytest.raises(BadNode, match="The node of topic t1"):
            nodes.decode_topic("t1", data)

    @pytest.mark.parametrize(
        "data", [b"", b"{}", b'{"leader":"x","leader_epoch":0,"isr":[],"controller_epoch":0}', b"7"]
    )
    def test_so_is_a_partition_state(self, data: bytes) -> None:
        with pytest.raises(BadNode, match="the state of t1-3"):
            nodes.decode_partition_state("t1", 3, data)

    @pytest.mark.parametrize(
        "data", [b"", b"{}", b'{"endpoints":[1]}', b'{"endpoints":["x"]}', b'{"endpoints":null}']
    )
    def test_and_a_broker(self, data: bytes) -> None:
        with pytest.raises(BadNode, match="broker 7"):
            nodes.decode_broker(7, data)

    def test_and_the_small_ones(self) -> None:
        for decode, data in (
            (nodes.decode_controller, b"{}"),
            (nodes.decode_controller_epoch, b"one"),
            (nodes.decode_cluster_id, b"{}"),
            (nodes.decode_config, b'{"config":[1]}'),
            (nodes.decode_producer_id_block, b"{}"),
        ):
            with pytest.raises(BadNode):
                decode(data)


numbers = st.integers(0, 2**31 - 1)
replicas = st.lists(numbers, max_size=4).map(tuple)
assignments = st.dictionaries(st.integers(0, 10_000), replicas, max_size=5)
extras: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(min_size=1).map(lambda key: "x" + key), st.none() | st.integers() | st.text(), max_size=2
)
hosts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True) | st.sampled_from(["::1", "fe80::1"])
endpoints = st.builds(
    Endpoint,
    st.from_regex(r"[A-Z][A-Z_]{0,10}", fullmatch=True),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL"]),
    hosts,
    st.integers(0, 65535),
)


@given(
    st.builds(
        TopicAssignment,
        assignments,
        st.none() | st.binary(min_size=16, max_size=16),
        assignments,
        assignments,
        extras,
    )
)
def test_a_topic_is_read_as_it_was_written(topic: TopicAssignment) -> None:
    assert nodes.decode_topic("t", nodes.encode_topic(topic)) == topic


@given(st.builds(PartitionState, st.integers(-1, 9), numbers, replicas, numbers, extras))
def test_a_partition_state_is_read_as_it_was_written(state: PartitionState) -> None:
    assert nodes.decode_partition_state("t", 0, nodes.encode_partition_state(state)) == state


@given(
    st.lists(endpoints, min_size=1, max_size=3, unique_by=lambda e: e.listener).map(tuple),
    st.none() | st.text(),
    st.integers(0, 2**63 - 1),
)
def test_a_broker_is_read_as_it_was_written(
    listed: tuple[Endpoint, ...], rack: str | None, time: int
) -> None:
    broker = BrokerRegistration(4, listed, rack, time)
    assert nodes.decode_broker(4, nodes.encode_broker(broker)) == broker


@given(st.dictionaries(st.text(), st.text()))
def test_a_config_is_read_as_it_was_written(configs: dict[str, str]) -> None:
    assert nodes.decode_config(nodes.encode_config(configs)) == configs


class TestUuids:
    @given(st.binary(min_size=16, max_size=16))
    def test_an_id_is_read_as_it_was_written_in_22_characters(self, uuid: bytes) -> None:
        text = nodes.encode_uuid(uuid)
        assert len(text) == 22
        assert nodes.decode_uuid(text) == uuid

    @pytest.mark.parametrize(
        "text", ["", "x", "FXnGDxlHTaOs4LUc9CNmG", "FXnGDxlHTaOs4LUc9CNmGA==", "ä" * 22, "/" * 22]
    )
    def test_a_text_that_is_no_id_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="not an id"):
            nodes.decode_uuid(text)

    def test_an_id_of_another_length_is_not_written(self) -> None:
        with pytest.raises(ValueError, match="16 bytes"):
            nodes.encode_uuid(b"short")

    def test_random_ids_differ_and_never_look_like_an_option(self) -> None:
        ids = {nodes.random_uuid() for _ in range(2000)}
        assert len(ids) == 2000
        assert not [uuid for uuid in ids if nodes.encode_uuid(uuid).startswith("-")]
        assert {uuid[6] >> 4 for uuid in ids} == {4}
