"""`ottla deadletter`: returns unreadable records to their original topic, once."""

import json

import pytest

from ottla.client.dead_letters import format_ranges, merge, parse_ranges

WHY = "ottla.dead.letter."


@pytest.fixture
def dead(ottla, topic, unique):
    """A dead-letter topic with three records of `topic`: two with one reason and one with another."""
    name = unique("dead")
    ottla("topics", "create", name)
    for offset, reason in enumerate(
        ["likes is 1.5, not int", "not JSON at character 0", "likes is [], not int"]
    ):
        bury(ottla, name, topic, offset, reason)
    yield name
    ottla("topics", "delete", name, "--yes")


def bury(ottla, name, topic, offset, reason):
    headers = {"trace": "t", f"{WHY}topic": topic, f"{WHY}partition": "2", f"{WHY}offset": str(offset)}
    headers |= {f"{WHY}reason": reason, f"{WHY}error": "BadValue", f"{WHY}timestamp": "1700000000000"}
    record = {"key": f"k{offset}", "value": f"v{offset}", "headers": headers}
    ottla("produce", name, "--json-lines", stdin=json.dumps(record).encode() + b"\n")


def values(ottla, topic):
    return sorted(ottla("consume", topic, "--from-beginning", "--until-end").lines)


def test_the_list_says_where_and_why(ottla, topic, dead):
    shown = ottla("deadletter", "list", dead)
    assert f"{topic}-2@1" in shown.text
    assert "not JSON at character 0" in shown.text
    letters = ottla("deadletter", "list", dead, "--json", "--reason", "^likes").json
    assert [(letter["offset"], letter["from_offset"], letter["replayed"]) for letter in letters] == [
        (0, "0", False),
        (2, "2", False),
    ]


def test_records_go_back_as_they_were(ottla, topic, dead):
    assert ottla("deadletter", "replay", dead).text == "Sent back 3 records.\n"
    rows = [json.loads(line) for line in ottla("consume", topic, "-B", "-e", "--json").lines]
    assert sorted((row["key"], row["value"]) for row in rows) == [("k0", "v0"), ("k1", "v1"), ("k2", "v2")]
    assert all(row["headers"] == [["trace", "t"]] and row["timestamp"] == 1700000000000 for row in rows)


def test_a_second_run_sends_only_what_is_new(ottla, topic, dead):
    ottla("deadletter", "replay", dead)
    assert ottla("deadletter", "replay", dead).text == "Sent back 0 records.\n"
    bury(ottla, dead, topic, 7, "empty")
    assert ottla("deadletter", "replay", dead).text == "Sent back 1 record.\n"
    assert values(ottla, topic) == ["v0", "v1", "v2", "v7"]
    assert all(letter["replayed"] for letter in ottla("deadletter", "list", dead, "--json").json)


def test_what_a_reason_leaves_out_can_be_sent_later(ottla, topic, dead):
    sent = ottla("deadletter", "replay", dead, "--reason", "not JSON")
    assert sent.text == "Sent back 1 record, 2 with other reasons left.\n"
    assert values(ottla, topic) == ["v1"]
    ottla("deadletter", "replay", dead)
    assert values(ottla, topic) == ["v0", "v1", "v2"]


def test_a_dry_run_changes_nothing(ottla, topic, dead):
    assert ottla("deadletter", "replay", dead, "--dry-run").text == "Would send back 3 records.\n"
    assert values(ottla, topic) == []
    assert not any(letter["replayed"] for letter in ottla("deadletter", "list", dead, "--json").json)


def test_another_topic_can_take_them(ottla, topic, dead, unique):
    other = unique("other")
    ottla("topics", "create", other)
    ottla("deadletter", "replay", dead, "--to", other)
    assert (values(ottla, other), values(ottla, topic)) == (["v0", "v1", "v2"], [])
    ottla("topics", "delete", other, "--yes")


def test_records_that_are_no_dead_letters_stay(ottla, topic):
    ottla("produce", topic, "-m", "plain")
    done = ottla("deadletter", "replay", topic)
    assert done.text == "Sent back 0 records.\n"
    assert "1 record of" in done.err


def test_wrong_use_is_one_sentence(ottla, unique):
    missing = ottla("deadletter", "replay", unique("nothing"), check=False)
    assert missing.code == 1
    assert "does not exist" in missing.err
    wrong = ottla("deadletter", "list", "x", "--reason", "[", check=False)
    assert "is not a regular expression" in wrong.err


def test_ranges_of_offsets_are_kept_short():
    ranges = merge([range(5), range(9, 10), range(5, 7), range(20, 23), range(0)])
    assert ranges == [range(7), range(9, 10), range(20, 23)]
    assert format_ranges(ranges[1:]) == "9,20-22"
    assert parse_ranges("9,20-22") == ranges[1:]
    assert parse_ranges("") == parse_ranges("something else") == []


def bury_for_share_group(ottla, name, topic, offset, **copy):
    headers = {"topic": topic, "partition": "0", "offset": str(offset), "group": "g", "delivery.count": "1"}
    headers = {f"__dlq.errors.{key}": value for key, value in headers.items()}
    headers["__dlq.errors.message"] = "Offset rejected by client."
    record = {"key": None, "value": None, **copy, "headers": headers}
    ottla("produce", name, "--json-lines", stdin=json.dumps(record).encode() + b"\n")


@pytest.fixture
def letters(ottla, unique):
    """A dead-letter topic of share groups, and a topic with three records."""
    topic, name = unique("jobs"), unique("dlq.")
    for each in (topic, name):
        ottla("topics", "create", each, "--partitions", "1")
    for number in range(3):
        record = {
            "key": f"k{number}",
            "value": f"v{number}",
            "headers": {"trace": "t"},
            "timestamp": 1700000000000,
        }
        ottla("produce", topic, "--json-lines", stdin=json.dumps(record).encode() + b"\n")
    yield topic, name
    for each in (topic, name):
        ottla("topics", "delete", each, "--yes")


def test_letters_of_share_groups_are_redriven_with_the_records_at_their_offsets(ottla, letters, unique):
    topic, name = letters
    bury_for_share_group(ottla, name, topic, 2)
    bury_for_share_group(ottla, name, topic, 1)
    shown = ottla("dead-letters", "list", name)
    assert f"{topic}-0@2" in shown.text
    assert "Offset rejected by client." in shown.text
    assert ottla("dead-letters", "redrive", name).text == "Sent back 2 records.\n"
    rows = [json.loads(line) for line in ottla("consume", topic, "-B", "-e", "--json").lines]
    assert [(row["key"], row["value"]) for row in rows[3:]] == [("k2", "v2"), ("k1", "v1")]
    assert all(row["headers"] == [["trace", "t"]] and row["timestamp"] == 1700000000000 for row in rows)
    assert ottla("dead-letters", "redrive", name).text == "Sent back 0 records.\n"


def test_a_record_that_was_deleted_is_sent_from_the_copy_or_reported(ottla, letters):
    topic, name = letters
    bury_for_share_group(ottla, name, topic, 999)
    bury_for_share_group(ottla, name, topic, 998, key="k", value="copied")
    sent = ottla("deadletter", "redrive", name)
    assert sent.text == "Sent back 1 record.\n"
    assert "1 record cannot be sent back" in sent.err
    assert values(ottla, topic) == ["copied", "v0", "v1", "v2"]
    assert [letter["replayed"] for letter in ottla("deadletter", "list", name, "--json").json] == [
        False,
        True,
    ]
