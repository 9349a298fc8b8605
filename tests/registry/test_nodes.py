"""Several nodes: one leads, the others forward writes to it, and a replaced leader cannot write."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time

import pytest

from ottla.registry.election import (
    Identity,
    decode_assignment,
    decode_identity,
    elect,
    encode_assignment,
    encode_identity,
)
from ottla.registry.log import Fenced, LogProducer
from ottla.registry.model.records import NOOP, SCHEMA, Key, Write
from ottla.registry.settings import RegistrySettings
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.registry.conftest import Api, in_background, record
from tests.registry.nodes import BROKER_CONFIG, SETTINGS, NodeProcess
from tests.registry.writers import Writer, check, wait_until


def settings(broker: Broker, **more: str) -> RegistrySettings:
    return RegistrySettings.from_properties(
        {
            "kafkastore.bootstrap.servers": broker.bootstrap_servers,
            "listeners": "http://127.0.0.1:0",
            **SETTINGS,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


# The election as a pure function


def test_what_nodes_say_of_themselves_is_confluents():
    data = encode_identity(Identity("a.example", 8081, True, "https"))
    assert json.loads(data) == {
        "version": 1,
        "host": "a.example",
        "port": 8081,
        "master_eligibility": True,
        "scheme": "https",
    }
    assert decode_identity(data) == Identity("a.example", 8081, True, "https")


def test_the_smallest_url_of_the_eligible_leads():
    members = {
        "m1": Identity("c", 8081),
        "m2": Identity("b", 8081),
        "m3": Identity("a", 8081, is_eligible=False),
    }
    elected = elect(members)
    assert (elected.error, elected.leader_member, elected.leader) == (0, "m2", members["m2"])
    assert decode_assignment(encode_assignment(elected)) == elected
    assert json.loads(encode_assignment(elected))["master_identity"]["host"] == "b"


def test_nobody_leads_if_two_have_the_same_url_or_none_may():
    same = elect({"m1": Identity("a", 1), "m2": Identity("a", 1)})
    assert (same.error, same.leader) == (1, None)
    assert elect({"m1": Identity("a", 1, is_eligible=False)}).leader is None


# Real nodes


def test_writes_to_any_node_are_read_on_every_node():
    with (
        Broker(config=BROKER_CONFIG) as broker,
        in_background(settings(broker)) as one,
        in_background(settings(broker)) as two,
    ):
        apis = [Api(one.url), Api(two.url)]
        for number in range(10):
            api = apis[number % 2]
            assert api.id_of(f"s{number}", record(f"R{number}", "x")) == number + 1
            # A client that wrote through a node reads its write there.
            assert api.get(f"/subjects/s{number}/versions") == [1]
        refused = [each.register("s1", '"int"') for each in apis]
        assert {(each.status, each.code) for each in refused} == {(409, 409)}
        assert apis[1]("PUT", "/config", {"compatibility": "NONE"}).status == 200
        wait_until(lambda: apis[0].get("/config") == {"compatibilityLevel": "NONE"})
        wait_until(lambda: apis[0].get("/subjects") == apis[1].get("/subjects"))


def test_a_node_that_may_not_lead_serves_reads_and_passes_writes_on():
    with (
        Broker(config=BROKER_CONFIG) as broker,
        in_background(settings(broker, leader_eligibility="false", kafkastore_timeout_ms="1000")) as one,
    ):
        api = Api(one.url)
        assert api.get("/subjects") == []
        alone = api.register("a", '"int"')
        assert (alone.status, alone.code, alone.message) == (500, 50004, "Leader not known.")
        with in_background(settings(broker)):
            wait_until(lambda: api.register("a", '"int"').status == 200)
            wait_until(lambda: api.get("/subjects") == ["a"])


def test_the_next_node_leads_when_the_leader_stops():
    with Broker(config=BROKER_CONFIG) as broker, in_background(settings(broker)) as stays:
        with in_background(settings(broker)) as leaves:
            assert Api(leaves.url).id_of("a", '"int"') == 1
        assert Api(stays.url).id_of("b", '"long"') == 2


def test_who_was_replaced_cannot_write():
    """Promise: the broker itself rejects writes of an older leader, however late they arrive."""
    with Broker(registry=True) as broker:
        client = settings(broker).client
        Api(broker.schema_registry_url).id_of("a", '"int"')
        topic = "_schemas"
        older, newer = (LogProducer(client, topic, "schema-registry-_schemas") for _ in range(2))
        older.take_over(10)
        older.append([Write(Key(SCHEMA, "x", 1), None)], 10)
        newer.take_over(10)
        count = len(broker.records(topic))
        with pytest.raises(Fenced):
            older.append([Write(Key(SCHEMA, "y", 1), None)], 10)
        assert len(broker.records(topic)) == count
        newer.append([Write(Key(NOOP), None)], 10)
        older.close()
        newer.close()
        # The registry notices, triggers a new election, and continues.
        assert Api(broker.schema_registry_url).id_of("b", '"long"') == 2


@pytest.mark.slow
def test_no_id_twice_and_nothing_lost_when_leaders_are_killed_and_paused(tmp_path):
    ports = ReservedPorts(2)
    with Broker(config=BROKER_CONFIG) as broker:
        nodes = [NodeProcess(broker, port, tmp_path / f"{port}.log") for port in ports.numbers]
        stopping = threading.Event()
        writers = [Writer(number, [node.url for node in nodes], stopping) for number in range(4)]
        try:
            for node in nodes:
                node.start()
            Api(nodes[0].url).id_of("first", '"int"')
            for writer in writers:
                writer.start()
            leader = min(nodes, key=lambda each: each.url)
            for round_number in range(4):
                total = sum(len(each.registered) for each in writers)
                wait_until(lambda: sum(len(each.registered) for each in writers) > total + 50)  # noqa: B023
                if round_number % 2:
                    # The old leader wakes up after its replacement, with writes in flight.
                    leader.send(signal.SIGSTOP)
                    time.sleep(4)
                    leader.send(signal.SIGCONT)
                else:
                    leader.kill()
                    leader.start()
            total = sum(len(each.registered) for each in writers)
            wait_until(lambda: sum(len(each.registered) for each in writers) > total + 50, 60)
        finally:
            stopping.set()
            for writer in writers:
                if writer.ident is not None:
                    writer.join()
            for node in nodes:
                node.kill()
        registered = {name: each for writer in writers for name, each in writer.registered.items()}
        with in_background(settings(broker)) as fresh:
            check(registered, Api(fresh.url))


def test_a_registry_ends_at_once_and_cleanly(tmp_path):
    ports = ReservedPorts(1)
    with Broker(config=BROKER_CONFIG) as broker:
        node = NodeProcess(broker, ports.numbers[0], tmp_path / "log").start()
        try:
            assert Api(node.url).id_of("a", '"int"') == 1
            node.stop()
        finally:
            node.kill()
        assert "Stopped cleanly." in (tmp_path / "log").read_text()


def test_schema_registry_start_takes_a_file_of_confluents(tmp_path):
    ports = ReservedPorts(1)
    with Broker(config=BROKER_CONFIG) as broker:
        file = tmp_path / "schema-registry.properties"
        file.write_text(
            f"listeners=http://127.0.0.1:{ports.numbers[0]}\n"
            f"kafkastore.bootstrap.servers=PLAINTEXT://{broker.bootstrap_servers}\n"
            "kafkastore.topic=_schemas\ndebug=false\nschema.compatibility.level=FULL\n"
        )
        program = "from ottla.cli.commands.servers.registry import main; main()"
        node = NodeProcess(broker, ports.numbers[0], tmp_path / "log")
        node.command = [sys.executable, "-c", program, str(file)]
        try:
            node.start()
            assert Api(node.url).get("/config") == {"compatibilityLevel": "FULL"}
            node.stop()
        finally:
            node.kill()
