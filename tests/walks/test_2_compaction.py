"""Compaction: the last salary of each employee remains."""

from __future__ import annotations

from tests.walks.machine import Machine

KEYS = "--property parse.key=true --property key.separator=,"


def test_01_old_salaries_disappear(machine: Machine) -> None:
    machine.terminal("zookeeper-server-start config/zookeeper.properties", "binding to port")
    machine.terminal("kafka-server-start config/server.properties", r"\[KafkaServer id=0\] started")
    machine(
        "kafka-topics --zookeeper 127.0.0.1:2181 --create --topic employee-salary --partitions 1 "
        "--replication-factor 1 --config cleanup.policy=compact --config min.cleanable.dirty.ratio=0.001 "
        "--config segment.ms=5000"
    )
    described = machine("kafka-topics --zookeeper 127.0.0.1:2181 --describe --topic employee-salary")
    assert "cleanup.policy=compact" in described[0]
    produce = f"kafka-console-producer --broker-list 127.0.0.1:9092 --topic employee-salary {KEYS}"
    producer = machine.terminal(produce, ">")
    producer.type("A,1000", "B,1000", "C,1000", "A,2000", "B,2000", "b,3000")
    producer.ctrl_d()
    consume = (
        "kafka-console-consumer --bootstrap-server 127.0.0.1:9092 --topic employee-salary --from-beginning "
        "--property print.key=true --property key.separator=, --timeout-ms 3000"
    )
    machine.repeat(consume, lambda lines: lines == ["C,1000", "A,2000", "B,2000", "b,3000"])
