"""`ottla groups …` against a broker."""

import json
import time

import pytest


@pytest.fixture
def consumed(ottla, topic, group):
    """Write ten messages to partition 0; the group has read four."""
    ottla("produce", topic, "-p", 0, stdin=b"".join(b"%d\n" % i for i in range(10)))
    ottla("consume", topic, "--group", group, "--from-beginning", "-n", 4)
    return group


def offsets(ottla, group):
    [described] = ottla("groups", "describe", group, "--json").json
    return {row["partition"]: row["current_offset"] for row in described["offsets"]}


def test_a_group_is_listed_and_described_with_its_lag(ottla, topic, consumed):
    assert {"group": consumed, "state": "Empty", "type": "Classic"}.items() <= next(
        row for row in ottla("groups", "list", "--json").json if row["group"] == consumed
    ).items()
    described = ottla("groups", "describe", consumed)
    assert described.err == f"Consumer group '{consumed}' has no active members.\n"
    table = [line.split() for line in described.lines]
    heading = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert " ".join(table[0]) == heading
    assert table[1] == [consumed, topic, "0", "4", "10", "6", "-", "-", "-"]


def test_an_active_group_shows_its_members_and_cannot_be_changed(ottla, topic, group):
    ottla("produce", topic, "-p", 0, "-m", "x")
    member = ottla.start("consume", topic, "--group", group, "--from-beginning")
    assert member.stdout.readline() == b"x\n"
    try:
        [described] = ottla("groups", "describe", group, "--json").json
        assert described["state"] == "Stable"
        assert [m["client_id"] for m in described["members"]] == ["ottla-cli"]
        assert described["members"][0]["partitions"] == [[topic, n] for n in range(3)]
        assert f"{topic}(0,1,2)" in ottla("groups", "describe", group, "--members").text
        assert "Stable" in ottla("groups", "describe", group, "--state").text
        refused = ottla("groups", "reset-offsets", group, "-t", topic, "--to-earliest", check=False)
        assert "has active members (state Stable)" in refused.err
        assert "has active members" in ottla("groups", "delete", group, "--yes", check=False).err
        assert ottla("groups", "delete-offsets", group, "-t", topic, "--yes", check=False).code == 1
    finally:
        member.terminate()
        member.communicate(timeout=20)


def test_a_reset_is_only_shown_until_it_is_executed(ottla, topic, consumed):
    plan = ottla("groups", "reset-offsets", consumed, "--topic", topic, "--to-earliest")
    assert "Nothing was changed" in plan.err
    assert [line.split() for line in plan.lines][:2] == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"],
        [consumed, topic, "0", "4", "0"],
    ]
    assert offsets(ottla, consumed)[0] == 4
    ottla("groups", "reset-offsets", consumed, "--topic", topic, "--to-earliest", "--execute")
    assert offsets(ottla, consumed) == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to-latest",), 10),
        (("--to-offset", 7), 7),
        (("--shift-by", 2), 6),
        (("--shift-by", -2), 2),
        (("--by-duration", "1h"), 0),
        (("--by-duration", "PT0S"), 10),
        (("--to-datetime", "2020-01-01T00:00:00Z"), 0),
        (("--to-current",), 4),
    ],
)
def test_where_a_reset_can_go(ottla, topic, consumed, target, expected):
    ottla("groups", "reset-offsets", consumed, "--topic", f"{topic}:0", *target, "--execute")
    assert offsets(ottla, consumed)[0] == expected


@pytest.mark.parametrize(("shift", "end"), [(100, 10), (-100, 0)])
def test_a_shift_past_either_end_is_clamped_with_a_warning(ottla, topic, consumed, shift, end):
    changed = ottla(
        "groups",
        "reset-offsets",
        consumed,
        "--topic",
        f"{topic}:0",
        "--shift-by",
        shift,
        "--execute",
        "--json",
    )
    assert changed.err.startswith(f"Warning: offset {4 + shift} of {topic}-0 is ")
    assert changed.json[0] | {"group": ""} == {
        "group": "",
        "topic": topic,
        "partition": 0,
        "current_offset": 4,
        "new_offset": end,
        "clamped_from": 4 + shift,
        "nothing_since": False,
    }
    assert offsets(ottla, consumed)[0] == end


def test_all_topics_of_a_group_can_be_reset_at_once(ottla, topic, consumed):
    before = offsets(ottla, consumed)
    ottla("groups", "reset-offsets", consumed, "--all-topics", "--to-latest", "--execute")
    assert offsets(ottla, consumed) == before | {0: 10}


def test_offsets_can_be_set_for_a_group_that_does_not_exist_yet(ottla, topic, group):
    ottla("produce", topic, "-p", 0, stdin=b"1\n2\n3\n")
    ottla("groups", "reset-offsets", group, "--topic", topic, "--to-offset", 2, "--execute")
    assert ottla("consume", topic, "--group", group, "--until-end").lines == ["3"]


def test_offsets_of_a_topic_can_be_forgotten(ottla, topic, consumed):
    ottla("groups", "reset-offsets", consumed, "--topic", topic, "--to-latest", "--execute")
    ottla("groups", "delete-offsets", consumed, "--topic", f"{topic}:0,2", "--yes")
    assert offsets(ottla, consumed) == {1: 0}
    none = ottla("groups", "delete-offsets", consumed, "--topic", f"{topic}:0", "--yes", check=False)
    assert none.code == 1


def test_a_deleted_group_is_gone(ottla, consumed):
    assert "--yes" in ottla("groups", "delete", consumed, check=False).err
    ottla("groups", "delete", consumed, "--yes")
    assert consumed not in ottla("groups", "list").text
    gone = ottla("groups", "describe", consumed, check=False)
    assert (gone.code, gone.err) == (1, f"Error: Consumer group '{consumed}' does not exist.\n")


def test_a_missing_partition_or_topic_is_said(ottla, topic, consumed):
    missing = ottla("groups", "reset-offsets", consumed, "-t", f"{topic}:7", "--to-earliest", check=False)
    assert missing.err == f"Error: Topic '{topic}' has no partition 7.\n"
    assert ottla("groups", "reset-offsets", consumed, "-t", "nope:x", "--to-earliest", check=False).code == 1


def test_a_reset_needs_exactly_one_target(alone):
    base = ("groups", "reset-offsets", "g", "--topic", "t")
    assert alone(*base, check=False).code == 2
    assert alone(*base, "--to-earliest", "--shift-by", "0", check=False).code == 2
    assert alone(*base, "--to-datetime", "yesterday", check=False).code == 2
    assert alone("groups", "reset-offsets", "g", "--to-earliest", check=False).code == 2
    assert alone(*base, "--to-earliest", "--execute", "--dry-run", check=False).code == 2


def test_two_members_share_the_partitions(ottla, topic, group):
    members = [ottla.start("consume", topic, "--group", group) for _ in range(2)]
    try:
        deadline = time.monotonic() + 60
        shares = []
        while shares != [1, 2] and time.monotonic() < deadline:
            done = ottla("groups", "describe", group, "--json", check=False)
            shares = (
                sorted(len(m["partitions"]) for m in json.loads(done.out)[0]["members"]) if done.out else []
            )
        assert shares == [1, 2]
    finally:
        for member in members:
            member.terminate()
            member.communicate(timeout=20)
