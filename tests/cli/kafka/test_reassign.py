"""kafka-reassign-partitions: its arithmetic, its files, and its messages for a standalone broker."""

import json

import pytest

from ottla.cli.errors import JobError
from ottla.cli.kafka.partitions.reassign_partitions import (
    parse_broker_ids,
    read_reassignment_to_execute,
    read_topics_to_move,
    state_of,
    to_json,
)
from ottla.client.admin.log_dirs import ReplicaPlace
from ottla.client.admin.reassignments import Move, Reassignment, moves_of, throttled_replicas

# -- moves and throttles ----------------------------------------------------------------------------------


def test_a_partition_is_read_from_where_it_is_and_written_where_it_is_not():
    moves = moves_of({}, {("t", 0): [2, 3], ("t", 1): [1, 2]}, {("t", 0): [1, 2], ("t", 1): [2, 1]})
    assert moves == {
        ("t", 0): Move(frozenset({1, 2}), frozenset({3})),
        ("t", 1): Move(frozenset({1, 2}), frozenset()),
    }


def test_what_goes_on_already_keeps_its_sources():
    ongoing = {("t", 0): Reassignment([3, 1, 2], [3], [1]), ("u", 0): Reassignment([4, 5], [4], [5])}
    moves = moves_of(ongoing, {("t", 0): [4, 2]}, {("t", 0): [3, 1, 2]})
    assert moves == {
        ("t", 0): Move(frozenset({1, 2}), frozenset({4})),
        ("u", 0): Move(frozenset({5}), frozenset({4})),
    }


def test_throttles_name_each_replica():
    moves = {
        ("t", 0): Move(frozenset({1, 2}), frozenset({3})),
        ("t", 1): Move(frozenset({2}), frozenset({1, 3})),
    }
    assert throttled_replicas(moves) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:2",
            "follower.replication.throttled.replicas": "0:3,1:1,1:3",
        }
    }


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (None, "Partition t-0 cannot be found in any live log directory on broker 1."),
        (ReplicaPlace("/a", "/b"), "Reassignment of replica t-0-1 is still in progress."),
        (ReplicaPlace("/a", "/c"), "Partition t-0 on broker 1 is being moved to log dir /c instead of /b."),
        (ReplicaPlace("/b"), "Reassignment of replica t-0-1 completed successfully."),
        (ReplicaPlace("/a"), "Partition t-0 on broker 1 is not being moved from log dir /a to /b."),
    ],
)
def test_a_move_between_directories(place, sentence):
    assert state_of(("t", 0, 1), "/b", place) == sentence


# -- files ------------------------------------------------------------------------------------------------


def partitions(*entries, **others):
    return json.dumps({"version": 1, "partitions": list(entries), **others})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not valid JSON: Expecting property name enclosed in double quotes in line 1, column 2."),
        ("[]", 'is not of the form {"partitions": […], "version": 1}.'),
        (partitions(), "Partition reassignment list cannot be empty"),
        (partitions(version=2), "Not supported version field value 2"),
        (
            partitions({"topic": "t", "partition": 0, "replicas": []}),
            "Partition replica list cannot be empty",
        ),
        (
            partitions({"topic": "t", "partition": "0", "replicas": [1]}),
            "needs topic, partition and replicas",
        ),
        (partitions("t"), "needs topic, partition and replicas"),
        (
            partitions(*[{"topic": "t", "partition": 0, "replicas": [1]}] * 2),
            "Partition reassignment contains duplicate topic partitions: t-0",
        ),
        (
            partitions({"topic": "t", "partition": 0, "replicas": [1, 1]}),
            "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 1",
        ),
        (
            partitions({"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}),
            "Size of replicas list [1, 2] is different from size of log dirs list [any] for partition t-0",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "move.json"
    path.write_text(text)
    with pytest.raises(JobError) as refused:
        read_reassignment_to_execute(path)
    assert sentence in refused.value.message


def test_topics_and_brokers_come_once(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text('{"topics": [{"topic": "a"}, {"topic": "b"}, {"topic": "a"}]}')
    with pytest.raises(JobError, match=r"List of topics to reassign contains duplicate entries: \[a\]"):
        read_topics_to_move(path)
    with pytest.raises(JobError, match=r"Broker list contains duplicate entries: \[2\]"):
        parse_broker_ids("1,2,2")
    with pytest.raises(JobError, match="write --broker-list 0,1,2"):
        parse_broker_ids("localhost:9092")


def test_what_is_written_can_be_read(tmp_path):
    path = tmp_path / "rollback.json"
    path.write_text(to_json({("t", 1): [2, 1], ("t", 0): [1]}, {("t", 1, 2): "/logs"}))
    assert path.read_text() == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]},'
        '{"topic":"t","partition":1,"replicas":[2,1],"log_dirs":["/logs","any"]}]}'
    )
    read = read_reassignment_to_execute(path)
    assert read.assignment == {("t", 0): [1], ("t", 1): [2, 1]}
    assert read.log_dirs == {("t", 1, 2): "/logs"}


# -- against a broker ---------------------------------------------------------------------------------------


@pytest.fixture
def move(tmp_path, topic):
    path = tmp_path / "move.json"
    path.write_text(partitions({"topic": topic, "partition": 1, "replicas": [0]}))
    return path


def test_an_assignment_is_proposed(tools, kafka_broker, topic, tmp_path):
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    said = tools(
        "reassign-partitions", "--generate", "--topics-to-move-json-file", path, "--broker-list", 0
    ).lines
    assert said[0] == "Current partition replica assignment"
    current = json.loads(said[1])["partitions"]
    assert current[0] == {
        "topic": topic, "partition": 0, "replicas": [0], "log_dirs": [str(kafka_broker.data)]
    }  # fmt: skip
    assert said[2:4] == ["", "Proposed partition reassignment configuration"]
    proposed = json.loads(said[4])["partitions"]
    assert [(each["replicas"], each["log_dirs"]) for each in proposed] == [([0], ["any"])] * 3
    none = tools(
        "reassign-partitions", "--generate", "--topics-to-move-json-file", path, "--broker-list", "7", code=1
    )
    assert none.out == "Error: Replication factor: 1 larger than available brokers: 0.\n"


def test_a_reassignment_is_executed_and_verified(tools, kafka_broker, topic, move):
    executed = tools(
        "reassign-partitions", "--execute", "--reassignment-json-file", move, "--throttle", 5000
    ).lines
    assert executed[:2] == ["Current partition replica assignment", ""]
    assert json.loads(executed[2])["partitions"] == [
        {"topic": topic, "partition": 1, "replicas": [0], "log_dirs": [str(kafka_broker.data)]}
    ]
    assert executed[3:] == [
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed.",
        "The inter-broker throttle limit was set to 5000 B/s",
        f"Successfully started partition reassignment for {topic}-1",
    ]
    described = ("configs", "--entity-type", "topics", "--entity-name", topic, "--describe")
    assert "leader.replication.throttled.replicas=1:0 " in tools(*described).out
    verified = tools("reassign-partitions", "--verify", "--reassignment-json-file", move)
    assert verified.lines == [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-1 is completed.",
        "",
        "Clearing broker-level throttles on broker 0",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    assert "throttled" not in tools(*described).out
    assert tools("reassign-partitions", "--list").out == "No partition reassignments found.\n"
    cancelled = tools(
        "reassign-partitions", "--cancel", "--reassignment-json-file", move, "--preserve-throttles"
    )
    assert cancelled.lines == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
    ]


def test_what_was_printed_is_the_way_back(tools, kafka_broker, topic, move, tmp_path):
    before = tools("reassign-partitions", "--execute", "--reassignment-json-file", move).lines[2]
    back = tmp_path / "back.json"
    back.write_text(before)
    returned = tools("reassign-partitions", "--execute", "--reassignment-json-file", back).lines
    assert returned[-1] == (
        f"Successfully started moving log directory to {kafka_broker.data} for replica {topic}-1 with broker 0 "
    )
    verified = tools("reassign-partitions", "--verify", "--reassignment-json-file", back).lines
    assert verified[2] == f"Reassignment of replica {topic}-1-0 completed successfully."
    back.write_text(before.replace(str(kafka_broker.data), "/elsewhere"))
    failed = tools("reassign-partitions", "--execute", "--reassignment-json-file", back, code=1)
    assert failed.lines[-1] == f"Error: Failed to alter dir for {topic}-1-0: LOG_DIR_NOT_FOUND"


def test_what_cannot_be_moved_is_one_sentence(tools, topic, tmp_path):
    path = tmp_path / "move.json"
    for entry, sentence in (
        ({"topic": topic, "partition": 0, "replicas": [7]}, "Error: Unknown broker id 7"),
        ({"topic": topic, "partition": 9, "replicas": [0]}, f"Error: Unable to find partition: {topic}-9"),
        ({"topic": "nowhere", "partition": 0, "replicas": [0]}, "Error: Topic nowhere not found."),
    ):
        path.write_text(partitions(entry))
        failed = tools("reassign-partitions", "--execute", "--reassignment-json-file", path, code=1)
        assert failed.lines == [sentence]
        assert failed.err == ""


def test_wrong_usage(tools, move):
    for args, sentence in (
        ([], "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"),
        (["--verify"], 'Missing required argument "[reassignment-json-file]"'),
        (["--generate"], 'Missing required argument "[topics-to-move-json-file]"'),
        (["--list", "--throttle", 3], 'Option "[throttle]" can\'t be used with action "[list]"'),
        (
            ["--verify", "--reassignment-json-file", move, "--broker-list", "1"],
            'Option "[broker-list]" can\'t be used with action "[verify]"',
        ),
    ):
        assert tools("reassign-partitions", *args, code=1).err == f"{sentence}\n"
    missing = tools("reassign-partitions", "--verify", "--reassignment-json-file", "no-file", code=1)
    assert missing.out == "Error: Unable to read file no-file\n"
