"""kafka-share-groups, kafka-groups, and share consumers."""

import json
import re
import signal
import time

import pytest


@pytest.fixture
def share_group(tools, unique):
    """A share group that starts at the earliest offset."""
    name = unique("s")
    tools("configs", "--entity-type", "groups", "--entity-name", name, "--alter", "--add-config",
          "share.auto.offset.reset=earliest")  # fmt: skip
    return name


@pytest.fixture
def filled(kafka_broker, topic):
    """The topic with five records in partition 0."""
    for number in range(5):
        kafka_broker.produce(topic, b"value %d" % number, key=b"key", partition=0)
    return topic


def columns(line):
    return re.split(r" +", line.strip())


def consume(tools, topic, group, *args, code=0):
    return tools("console-share-consumer", "--topic", topic, "--group", group, "--timeout-ms", 10_000, *args,
                 code=code)  # fmt: skip


def table(tools, *args):
    return [columns(line) for line in tools("share-groups", *args).lines if line.strip()]


def test_messages_are_accepted_once(tools, filled, share_group):
    first = consume(tools, filled, share_group, "--max-messages", 3)
    assert first.lines == ["value 0", "value 1", "value 2"]
    assert first.err == "Processed a total of 3 messages\n"
    rest = consume(tools, filled, share_group, "--max-messages", 2, "--formatter-property", "print.key=true")
    assert rest.lines == ["key\tvalue 3", "key\tvalue 4"]


def test_released_messages_come_again_and_rejected_ones_do_not(tools, filled, share_group):
    shown = ("--formatter-property", "print.delivery=true", "--formatter-property", "print.offset=true",
             "--formatter-property", "print.epoch=true", "--formatter-property", "print.value=false")  # fmt: skip
    released = consume(tools, filled, share_group, "--max-messages", 5, "--release", *shown)
    assert released.lines == [f"Offset:{n}\tDelivery:1\tEpoch:NOT_PRESENT" for n in range(5)]
    rejected = consume(tools, filled, share_group, "--max-messages", 5, "--reject", *shown)
    assert rejected.lines == [f"Offset:{n}\tDelivery:2\tEpoch:NOT_PRESENT" for n in range(5)]
    assert tools("console-share-consumer", "--topic", filled, "--group", share_group, "--timeout-ms", 500,
                 "--enable-systest-events").out == "shutdown_complete\n"  # fmt: skip


def test_a_message_that_cannot_be_printed_is_rejected_if_that_is_wanted(tools, filled, share_group):
    numbers = ("--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer")
    failed = consume(tools, filled, share_group, *numbers, code=1)
    assert failed.err.splitlines()[-1] == "A message does not fit the deserializer that was named."
    skipped = consume(tools, filled, share_group, *numbers, "--reject-message-on-error", "--max-messages", 5)
    assert skipped.err.count("rejecting this message") == 5


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--topic is a required argument\n"),
        (("--topic", "t", "--release", "--reject"), "At most one of --reject and --release may be specified.\n"),
        (("--topic", "t", "--property", "a=b", "--formatter-property", "a=b"),
         "Options --property and --formatter-property cannot be specified together.\n"),
        (("--topic", "t", "--group", "a", "--command-property", "group.id=b"),
         "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
         "'--consumer-config') do not match. Detected group ids: 'a', 'b'\n"),
    ],
)  # fmt: skip
def test_what_the_console_share_consumer_refuses(tools, args, said):
    assert tools("console-share-consumer", *args, code=1).err == said


def test_a_group_is_described_moved_and_deleted(tools, filled, share_group):
    consume(tools, filled, share_group, "--max-messages", 5)
    describe = ("--describe", "--group", share_group)
    assert [share_group] == [line for line in tools("share-groups", "--list").lines if line == share_group]
    assert [share_group, "Empty"] in table(tools, "--list", "--state", "empty")
    assert [share_group, "Stable"] not in table(tools, "--list", "--state", "stable")
    headings, row = table(tools, *describe)[:2]
    assert headings == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert [*row[:3], row[4]] == [share_group, filled, "0", "0"]
    state = tools("share-groups", *describe, "--state")
    assert state.err == f"\nShare group '{share_group}' has no active members.\n"
    assert columns(state.lines[1]) == ["GROUP", "COORDINATOR", "(ID)", "STATE", "#MEMBERS"]
    assert columns(state.lines[2])[-2:] == ["Empty", "0"]
    move = ("share-groups", "--group", share_group, "--reset-offsets", "--topic", f"{filled}:0")
    tools(*move, "--to-latest", "--execute")
    assert table(tools, *describe, "--verbose")[1] == [share_group, filled, "0", "0", "5", "0"]
    assert tools(*move, "--to-earliest", "--dry-run").lines[1:] == [
        "GROUP           TOPIC           PARTITION  NEW-OFFSET",
        f"{share_group:<15} {filled:<15} {0:<10} 0",
    ]
    assert table(tools, *describe)[1][3] == "5", "nothing has been done"
    tools(*move, "--to-earliest", "--execute")
    assert table(tools, *describe)[1][3] == "0"
    assert consume(tools, filled, share_group, "--max-messages", 1).lines == ["value 0"]
    late = tools(*move, "--to-datetime", "2099-01-01T00:00:00.000", "--dry-run").lines
    assert f"Warn: Partition 0 from topic {filled} is empty. Falling back to latest known offset." in late
    assert tools("share-groups", "--group", share_group, "--delete-offsets", "--topic", filled).lines == [
        "", "TOPIC           STATUS", f"{filled:<15} Successful",
    ]  # fmt: skip
    assert tools("share-groups", *describe).lines == [
        "",
        f"Share group '{share_group}' has no offset information.",
    ]
    deleted = tools("share-groups", "--delete", "--group", share_group, "--group", "nobody", code=1)
    assert deleted.lines == [
        "",
        "Error: Deletion of some share groups failed:",
        "* Group 'nobody' could not be deleted due to: java.lang.IllegalArgumentException: Group 'nobody' is not a "
        "share group.",
        "",
        f"These share groups were deleted successfully: '{share_group}'",
    ]
    gone = tools("share-groups", *describe, code=1)
    assert gone.lines[1].endswith(f"GroupIdNotFoundException: Group {share_group} not found.")


def test_a_group_at_work_shows_its_members_and_stays_where_it_is(tools, filled, share_group):
    at_work = tools.start("console-share-consumer", "--topic", filled, "--group", share_group)
    try:
        assert at_work.stdout is not None
        at_work.stdout.readline()
        members = table(tools, "--describe", "--group", share_group, "--members")
        assert members[0] == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
        assert members[1][2:] == ["/127.0.0.1", "console-share-consumer", "3", f"{filled}:0,1,2"]
        assert len(table(tools, "--describe", "--group", share_group, "--members", "--verbose")[1]) == 7
        move = ("--reset-offsets", "--topic", filled, "--to-latest", "--execute")
        assert tools("share-groups", "--group", share_group, *move, code=1).err == (
            f"Share group '{share_group}' is not empty.\n"
        )
        refused = tools("share-groups", "--group", share_group, "--delete", code=1)
        assert f"Share group '{share_group}' is not EMPTY." in refused.out
    finally:
        at_work.send_signal(signal.SIGINT)
        assert at_work.wait(30) == 130
        at_work.communicate()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "Command must include exactly one action: "),
        (("--list", "--state", "Sleeping"), "Invalid state list 'Sleeping'. Valid states are: Empty, Dead, Stable"),
        (("--describe",), "Option [describe] takes one of these options: [all-groups], [group]"),
        (("--delete",), "Option [delete] takes the options [group] or [all-groups]"),
        (("--delete-offsets", "--group", "g"), "takes the following options: [group], [topic]"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest"), "[execute] or [dry-run]"),
        (("--reset-offsets", "--group", "g", "--to-latest", "--dry-run"), "[all-topics], [topic]"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--dry-run"), "[to-datetime], [to-earliest]"),
    ],
    ids=str,
)  # fmt: skip
def test_what_kafka_share_groups_refuses(tools, args, said):
    failed = tools("share-groups", *args, code=1)
    assert said in failed.err
    assert len(failed.err.splitlines()) == 1


def test_groups_of_all_types_are_listed(tools, filled, share_group, group):
    consume(tools, filled, share_group, "--max-messages", 1)
    tools("console-consumer", "--topic", filled, "--group", group, "--from-beginning", "--max-messages", 1)
    everything = tools("groups", "--list").lines
    assert columns(everything[0]) == ["GROUP", "TYPE", "PROTOCOL"]
    assert f"{share_group:<20} {'Share':<20} {'share':<20} " in everything
    for filters, there in (
        (("--share",), share_group),
        (("--group-type", "SHARE"), share_group),
        (("--protocol", "share"), share_group),
        (("--consumer",), group),
        (("--group-type", "classic", "--protocol", "consumer"), group),
    ):
        listed = {columns(line)[0] for line in tools("groups", "--list", *filters).lines}
        assert listed & {share_group, group} == {there}
    assert {columns(line)[1] for line in tools("groups", "--list", "--streams").lines} <= {"TYPE", "Streams"}
    assert (
        tools("groups", "--list", "--group-type", "x", code=1).err
        == "--group-type must be a valid group type.\n"
    )
    both = tools("groups", "--list", "--share", "--group-type", "share", code=1)
    assert both.err == 'Option "[share]" can\'t be used with option "[group-type]"\n'


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_what_a_share_group_consumed_can_be_verified(tools, filled, unique, mode):
    said = tools(
        "verifiable-share-consumer", "--topic", filled, "--group-id", unique("s"), "--max-messages", 5,
        "--offset-reset-strategy", "earliest", "--acknowledgement-mode", mode, "--verbose",
    )  # fmt: skip
    events = [json.loads(line) for line in said.lines]
    assert [event["name"] for event in events[:2]] == ["startup_complete", "offset_reset_strategy_set"]
    assert events[1]["offsetResetStrategy"] == "earliest"
    records = [event for event in events if event["name"] == "record_data"]
    assert [(each["key"], each["value"], each["offset"]) for each in records] == [
        ("key", f"value {number}", number) for number in range(5)
    ]
    for name in ("records_consumed", "offsets_acknowledged"):
        told = [event for event in events if event["name"] == name]
        assert [offset for each in told for part in each["partitions"] for offset in part["offsets"]] == [
            *range(5)
        ]
    assert all(each["success"] for each in events if each["name"] == "offsets_acknowledged")
    assert events[-1]["name"] == "shutdown_complete"


def test_how_fast_a_share_group_consumes_is_measured(tools, filled, share_group):
    measured = tools(
        "share-consumer-perf-test", "--topic", filled, "--group", share_group, "--num-records", 5,
        "--threads", 2, "--show-consumer-stats",
    )  # fmt: skip
    assert measured.lines[0] == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
    )
    for number, line in enumerate(measured.lines[1:3], 1):
        assert line.startswith(
            f"Share consumer {number} having client id perf-share-consumer-client-{number} "
        )
    figures = measured.lines[3].split(", ")
    assert (figures[2], figures[5]) == (f"{50 / 1024 / 1024:.4f}", "5")
    began = time.monotonic()
    nothing = tools(
        "share-consumer-perf-test", "--topic", filled, "--group", share_group, "--num-records", 5,
        "--timeout", 500, "--hide-header",
    )  # fmt: skip
    assert nothing.lines[0].startswith("WARNING: Exiting before consuming the expected number of records: ")
    assert time.monotonic() - began < 30
