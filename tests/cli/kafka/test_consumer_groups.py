"""kafka-consumer-groups, compared with the output of Kafka's tool."""

import signal

import pytest

OFFSETS = (
    "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     "
    "HOST            CLIENT-ID"
)


@pytest.fixture
def t(kafka_broker, unique):
    """A topic with three messages in each of two partitions. Its short name keeps columns as wide as their headings."""
    name = unique("t")[:10]
    kafka_broker.create_topic(name, partitions=2)
    for partition in range(2):
        for number in range(3):
            kafka_broker.produce(name, b"%d" % number, partition=partition)
    return name


@pytest.fixture
def g(tools, t, unique):
    """A group without members that has read everything."""
    name = unique("g")[:10]
    tools("consumer-groups", "--group", name, "--topic", t, "--reset-offsets", "--to-latest", "--execute")
    return name


def rows(result):
    return [line.split() for line in result.lines[2:]]


def test_a_group_without_members_shows_its_lag(tools, kafka_broker, t, g):
    kafka_broker.produce(t, b"one more", partition=1)
    described = tools("consumer-groups", "--describe", "--group", g)
    assert described.lines[:2] == ["", OFFSETS]
    assert described.lines[2].rstrip() == (
        f"{g:<15} {t:<15} 0          3               3               0               -               -               -"
    )
    assert rows(described)[1] == [g, t, "1", "3", "4", "1", "-", "-", "-"]
    assert described.err == f"\nConsumer group '{g}' has no active members.\n"
    state = tools("consumer-groups", "--describe", "--group", g, "--state")
    assert (
        state.lines[1]
        == "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS"
    )
    assert state.lines[2] == f"{g:<15} {tools.bootstrap + '  (0)':<25} {'-':<20} {'Empty':<20} 0"
    assert g in tools("consumer-groups", "--list").lines
    assert [g, "Empty"] in [line.split() for line in tools("consumer-groups", "--list", "--state").lines]
    assert [g, "Classic"] in [line.split() for line in tools("consumer-groups", "--list", "--type").lines]


def test_a_group_at_work_shows_its_members(tools, t, g):
    process = tools.start("console-consumer", "--topic", t, "--group", g)
    try:
        for _ in range(50):
            described = tools("consumer-groups", "--describe", "--group", g)
            if "console-consumer" in described.out:
                break
        first = rows(described)[0]
        assert first[:6] == [g, t, "0", "3", "3", "0"]
        assert first[6].startswith("console-consumer-")
        assert first[7:] == ["/127.0.0.1", "console-consumer"]
        [member] = rows(tools("consumer-groups", "--describe", "--group", g, "--members", "--verbose"))
        assert member[1:] == [first[6], "/127.0.0.1", "console-consumer", "2", "-", f"{t}:0,1", "-", "-"]
        refused = tools(
            "consumer-groups",
            "--group",
            g,
            "--topic",
            t,
            "--reset-offsets",
            "--to-earliest",
            "--execute",
            code=1,
        )
        assert refused.lines == [
            "",
            f"Error: Assignments can only be reset if the group '{g}' is inactive, but the current state is Stable.",
            "",
            "GROUP           TOPIC           PARTITION  NEW-OFFSET",
        ]
        held = tools("consumer-groups", "--delete-offsets", "--group", g, "--topic", f"{t}:0", code=1)
        assert held.lines[1] == "Error: Encountered some partition-level error, see the follow-up details."
        kept = tools("consumer-groups", "--delete", "--group", g, code=1)
        assert "The group is not empty." in kept.out
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_offsets_are_moved_in_every_way(tools, t, g):
    def reset(*args):
        moved = tools("consumer-groups", "--group", g, "--reset-offsets", *args)
        assert moved.lines[:2] == ["", "GROUP           TOPIC           PARTITION  NEW-OFFSET"]
        return {int(row[2]): int(row[3]) for row in rows(moved)}, moved.err

    def log_warning(wanted, side, partition, value):
        where = f"offset for topic partition {t}-{partition}"
        return f"WARN New offset ({wanted}) is {side} {where}. Value will be set to {value} "

    assert reset("--topic", t, "--to-earliest", "--execute") == ({0: 0, 1: 0}, "")
    moved, said = reset("--topic", t, "--shift-by", 2, "--execute")
    assert (moved, said) == ({0: 2, 1: 2}, "")
    moved, said = reset("--topic", t, "--shift-by", 2, "--execute")
    assert moved == {0: 3, 1: 3}
    assert log_warning(4, "higher than latest", 0, 3) in said
    assert reset("--topic", f"{t}:1", "--shift-by", -2, "--execute") == ({1: 1}, "")
    assert (
        log_warning(-1, "lower than earliest", 1, 0)
        in reset("--all-topics", "--shift-by", -2, "--dry-run")[1]
    )
    assert reset("--all-topics", "--to-current", "--dry-run") == ({0: 3, 1: 1}, "")
    assert reset("--topic", t, "--to-offset", 1, "--dry-run") == ({0: 1, 1: 1}, "")
    assert reset("--topic", t, "--to-datetime", "2020-01-01T00:00:00.000", "--dry-run") == ({0: 0, 1: 0}, "")
    assert reset("--topic", t, "--by-duration", "PT1H", "--dry-run") == ({0: 0, 1: 0}, "")
    moved, said = reset("--topic", t, "--to-latest")
    assert said.startswith("WARN: No action will be performed as the --execute option is missing.")


def test_what_is_exported_can_be_read_again(tools, t, g, tmp_path):
    exported = tools(
        "consumer-groups",
        "--group",
        g,
        "--topic",
        t,
        "--reset-offsets",
        "--to-earliest",
        "--dry-run",
        "--export",
    )
    assert exported.out == f"{t},0,0\n{t},1,0\n\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported.out)
    executed = tools("consumer-groups", "--group", g, "--reset-offsets", "--from-file", file, "--execute")
    assert [row[3] for row in rows(executed)] == ["0", "0"]
    file.write_text("not,csv\n")
    failed = tools(
        "consumer-groups", "--group", g, "--reset-offsets", "--from-file", file, "--dry-run", code=1
    )
    assert "line 1 of" in failed.out


def test_offsets_and_groups_are_deleted(tools, t, g):
    deleted = tools("consumer-groups", "--delete-offsets", "--group", g, "--topic", f"{t}:0")
    assert deleted.lines == [
        f"Request succeeded for deleting offsets from group {g}.",
        "",
        "TOPIC           PARTITION  STATUS         ",
        f"{t:<15} 0          Successful     ",
    ]
    assert len(rows(tools("consumer-groups", "--describe", "--group", g))) == 1
    gone = tools("consumer-groups", "--delete", "--group", g)
    assert gone.out == f"Deletion of requested consumer groups ('{g}') was successful.\n"
    failed = tools("consumer-groups", "--delete", "--group", g, code=1)
    assert failed.lines == [
        "",
        "Error: Deletion of some consumer groups failed:",
        f"* Group '{g}' could not be deleted due to: org.apache.kafka.common.errors.GroupIdNotFoundException: "
        "The group id does not exist.",
    ]


def test_a_group_that_is_not_there(tools):
    failed = tools("consumer-groups", "--describe", "--group", "nobody", code=1)
    assert failed.out == (
        "\nError: Executing consumer group command failed due to "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group nobody not found.\n"
    )


def test_a_topic_that_is_not_there_is_wrong_usage(tools, g):
    """Kafka's tool exits with 0 here as well; a script should notice a typo."""
    reset = ("consumer-groups", "--group", g, "--reset-offsets", "--to-latest", "--execute", "--topic")
    assert "Topic 'nowhere' does not exist." in tools(*reset, "nowhere", code=1).out


def test_wrong_usage(tools):
    for args, sentence in (
        ([], "exactly one action"),
        (["--describe"], "[group]"),
        (["--reset-offsets", "--group", "g", "--topic", "t"], "requires one of the following scenarios"),
        (["--reset-offsets", "--group", "g", "--to-latest"], "One of the reset scopes should be defined"),
        (["--delete-offsets", "--group", "g"], "[topic]"),
        (["--list", "--state", "asleep"], "Invalid state list 'asleep'"),
    ):
        assert sentence in tools("consumer-groups", *args, code=1).err
