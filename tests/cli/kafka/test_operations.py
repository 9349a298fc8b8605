"""kafka-get-offsets, -delete-records, -log-dirs, -broker-api-versions, -cluster, -leader-election."""

import json


def test_offsets_of_partitions(tools, kafka_broker, topic):
    for number in range(3):
        kafka_broker.produce(topic, b"x", timestamp=1000 * number)
    assert tools("get-offsets", "--topic", topic).lines == [f"{topic}:0:3", f"{topic}:1:0", f"{topic}:2:0"]
    assert tools("get-offsets", "--topic", topic, "--time", "earliest").lines[0] == f"{topic}:0:0"
    assert tools("get-offsets", "--topic", topic, "--time", -3).lines == [f"{topic}:0:2"]
    assert tools("get-offsets", "--topic", topic, "--time", 1000, "--partitions", 0).lines == [f"{topic}:0:1"]
    assert tools("get-offsets", "--topic-partitions", f"{topic}:1-").lines == [f"{topic}:1:0", f"{topic}:2:0"]
    failed = tools("get-offsets", "--topic", "nowhere", code=1)
    assert failed.err == "Error occurred: Could not match any topic-partitions with the specified filters\n"


def test_records_are_deleted(tools, kafka_broker, topic, tmp_path):
    for partition in range(2):
        for _ in range(3):
            kafka_broker.produce(topic, b"x", partition=partition)
    file = tmp_path / "offsets.json"
    wanted = [(0, 2), (1, -1), (2, 9)]
    partitions = [{"topic": topic, "partition": number, "offset": offset} for number, offset in wanted]
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    deleted = tools("delete-records", "--offset-json-file", file)
    assert deleted.lines == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {topic}-0\tlow_watermark: 2",
        f"partition: {topic}-1\tlow_watermark: 3",
        f"partition: {topic}-2\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: The requested "
        "offset is not within the range of offsets maintained by the server.",
    ]
    file.write_text(json.dumps({"partitions": [{"topic": "nowhere", "partition": 0, "offset": 1}]}))
    assert tools("delete-records", "--offset-json-file", file, code=1).lines[-1] == (
        "partition: nowhere-0\terror: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server "
        "does not host this topic-partition."
    )
    file.write_text('{"partitions": [')
    assert (
        tools("delete-records", "--offset-json-file", file, code=1).err
        == "The input string is not a valid JSON\n"
    )
    assert tools("delete-records", code=1).err == 'Missing required argument "[offset-json-file]"\n'


def test_log_directories(tools, kafka_broker, topic):
    kafka_broker.produce(topic, b"x")
    described = tools("log-dirs", "--describe", "--topic-list", topic)
    assert described.lines[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 0",
    ]
    [broker] = json.loads(described.lines[2])["brokers"]
    [directory] = broker["logDirs"]
    assert directory["logDir"] == str(kafka_broker.data)
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert sizes[f"{topic}-0"] > 60
    assert sizes[f"{topic}-1"] == 0
    failed = tools("log-dirs", "--describe", "--broker-list", "9", code=1)
    assert failed.err == (
        "ERROR: The given brokers do not exist from --broker-list: 9. Current existent brokers: 0\n"
    )


def test_api_versions(tools):
    lines = tools("broker-api-versions").lines
    assert lines[0] == f"{tools.bootstrap} (id: 0 rack: null isFenced: false) -> ("
    assert "\tProduce(0): 0 to 13 [usable: 13]," in lines
    assert "\tAddRaftVoter(80): UNSUPPORTED," in lines
    assert lines[-1] == ")"


def test_the_cluster(alone, kafka_broker):
    server = ("--bootstrap-server", kafka_broker.bootstrap_servers)
    assert alone("cluster", "cluster-id", *server).out.startswith("Cluster ID: ")
    endpoints = alone("cluster", "list-endpoints", *server).lines
    assert endpoints[0].split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
    assert endpoints[1].split()[:2] == ["0", "127.0.0.1"]
    # Kafka 4.4's new name of kafka-broker-api-versions
    assert alone("cluster", "api-versions", *server).out == alone("broker-api-versions", *server).out


def test_elections(tools, topic, tmp_path):
    election = ("leader-election", "--election-type", "preferred")
    elected = tools(*election, "--topic", topic, "--partition", 0)
    assert elected.out == f"Valid replica already elected for partitions {topic}-0\n"
    failed = tools(*election, "--topic", "nowhere", "--partition", 0, code=1)
    assert failed.out.startswith("Error completing leader election (PREFERRED) for partition: nowhere-0: ")
    assert failed.err == "1 replica(s) could not be elected\n"
    assert tools("leader-election", code=1).err == "Missing required option(s): election-type\n"
    # The deprecated name
    json_file = tmp_path / "partitions.json"
    json_file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 1}]}))
    elected = tools("preferred-replica-election", "--path-to-json-file", json_file)
    assert elected.out == f"Valid replica already elected for partitions {topic}-1\n"
