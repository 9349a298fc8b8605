"""kafka-producer-perf-test, -consumer-perf-test, -e2e-latency, -verifiable-producer, -verifiable-consumer."""

import json
import re


def events(result):
    return [json.loads(line) for line in result.lines]


def test_producing_and_consuming_is_measured(alone, tools, kafka_broker, topic):
    produced = alone(
        "producer-perf-test", "--topic", topic, "--num-records", 2000, "--record-size", 100, "--throughput", -1,
        "--producer-props", f"bootstrap.servers={kafka_broker.bootstrap_servers}", "acks=all",
    )  # fmt: skip
    assert re.fullmatch(
        r"2000 records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, "
        r"\d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99.9th.\n",
        produced.out,
    )
    consumed = tools("consumer-perf-test", "--topic", topic, "--messages", 2000)
    assert consumed.lines[0] == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
        "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    )
    figures = consumed.lines[1].split(", ")
    assert figures[2] == f"{200_000 / 1024 / 1024:.4f}"
    assert figures[4] == "2000"


def test_latency_from_end_to_end(tools, alone, unique):
    name = unique("t")
    options = ("--num-records", 20, "--producer-acks", "all", "--record-size", 10, "--record-key-size", 3)
    headers = ("--num-headers", 2, "--record-header-key-size", 3, "--record-header-size", -1)
    measured = tools("e2e-latency", "--topic", name, *options, *headers).lines
    assert measured[0] == (
        f'Topic "{name}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    )
    assert re.fullmatch(r"0\t\d+\.\d+", measured[1])
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", measured[2])
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+", measured[3])
    assert tools("get-offsets", "--topic", name).lines == [f"{name}:0:20"]
    by_position = alone("e2e-latency", tools.bootstrap, name, 2, 1, 10).lines
    assert by_position[0].startswith("WARNING: Positional argument usage is deprecated")
    assert by_position[-1].startswith("Percentiles: ")
    refused = tools(
        "e2e-latency", "--topic", name, "--num-records", 1, "--producer-acks", 0, "--record-size", 1, code=1
    )
    assert refused.err.startswith("Invalid value for --producer-acks. ")
    assert alone("e2e-latency", "a", "b", code=1).err.startswith(
        "Invalid number of arguments. Expected 5 or 6 "
    )


def test_what_is_produced_can_be_verified(tools, topic, group):
    produced = events(tools("verifiable-producer", "--topic", topic, "--max-messages", 3))
    assert [event["name"] for event in produced] == [
        "startup_complete",
        *["producer_send_success"] * 3,
        "shutdown_complete",
        "tool_data",
    ]
    assert list(produced[1]) == ["timestamp", "name", "key", "value", "offset", "topic", "partition"]
    assert (produced[-1]["sent"], produced[-1]["acked"]) == (3, 3)
    consumed = events(
        tools("verifiable-consumer", "--topic", topic, "--group-id", group, "--max-messages", 3)
    )
    names = [event["name"] for event in consumed]
    assert names[:2] == ["startup_complete", "partitions_assigned"]
    assert names[-2:] == ["partitions_revoked", "shutdown_complete"]
    assert sum(event["count"] for event in consumed if event["name"] == "records_consumed") == 3
    assert all(event["success"] for event in consumed if event["name"] == "offsets_committed")


def test_producing_is_measured_in_transactions_and_behind_a_warm_up(tools, topic):
    args = ("--topic", topic, "--num-records", "60", "--record-size", "10", "--throughput", "100")
    printed = tools(
        "producer-perf-test", *args, "--warmup-records", "20", "--transaction-duration-ms", "200",
        "--reporting-interval", "100", "--print-metrics",
    ).lines  # fmt: skip
    assert printed[0].startswith("Warmup first 20 records.")
    assert len([line for line in printed if line.endswith(" ms max latency.")]) > 1
    assert any(line.startswith("40 steady state records sent, ") for line in printed)
    assert "producer-metrics:record-send-total:{client-id=perf-producer-client}  : 60.000" in printed


def test_times_are_written_as_asked(tools, kafka_broker, topic):
    kafka_broker.produce(topic, b"x")
    args = (
        "--topic",
        topic,
        "--num-records",
        "1",
        "--hide-header",
        "--date-format",
        "yy/MM/dd'T'HH:mm:ss.SSS",
    )
    began = tools("consumer-perf-test", *args).lines[0].split(", ")[0]
    assert re.fullmatch(r"\d\d/\d\d/\d\dT\d\d:\d\d:\d\d\.\d\d\d", began)
