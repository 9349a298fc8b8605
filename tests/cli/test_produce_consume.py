"""`ottla produce` and `ottla consume` against a broker."""

import json
import os
import signal
import time
from itertools import pairwise

import pytest

from ottla.cli.errors import JobError
from ottla.cli.jobs.produce import UNASSIGNED, RoundRobinPartitioner, StickyPartitioner, idempotence


def test_lines_come_back_as_they_went_in(ottla, topic):
    sent = ottla("produce", topic, "--partition", 0, stdin=b"one\ntwo\r\n\nlast without end")
    assert sent.err.startswith("4 messages, 22 B in ")
    read = ottla("consume", topic, "--from-beginning", "--until-end")
    assert read.out == b"one\ntwo\n\nlast without end\n"
    assert read.err == "Processed a total of 4 messages\n"


def test_every_byte_survives(ottla, topic):
    value = bytes(b for b in range(256) if b != 10)
    ottla("produce", topic, "-p", 0, stdin=value + b"\n")
    assert ottla("consume", topic, "-B", "-e").out == value + b"\n"


def test_messages_from_arguments_with_key_and_headers(ottla, topic):
    ottla("produce", topic, "-m", "a", "-m", "with\nnewline", "--key", "k", "-H", "h=1", "-H", "h=2")
    rows = [json.loads(line) for line in ottla("consume", topic, "-B", "-e", "--json").lines]
    assert [row["value"] for row in rows] == ["a", "with\nnewline"]
    assert all(row["key"] == "k" and row["headers"] == [["h", "1"], ["h", "2"]] for row in rows)
    assert len({row["partition"] for row in rows}) == 1
    assert all(row["timestamp_type"] == "CreateTime" for row in rows)


def test_keys_are_cut_off_lines_and_markers_are_null(ottla, topic):
    ottla("produce", topic, "-p", 0, "-K", ",", "--null-marker", "NIL", stdin=b"a,1\nb,NIL\nNIL,3,4\n")
    rows = [json.loads(line) for line in ottla("consume", topic, "-B", "-e", "--json").lines]
    assert [(row["key"], row["value"]) for row in rows] == [("a", "1"), ("b", None), (None, "3,4")]
    assert ottla("consume", topic, "-B", "-e", "--print-key", "-K", "=").lines == [
        "a=1",
        "b=null",
        "null=3,4",
    ]


def test_a_line_without_its_key_stops_and_says_where(ottla, topic):
    stopped = ottla("produce", topic, "-p", 0, "-K", ",", stdin=b"a,1\nnothing\nb,2\n", check=False)
    assert stopped.code == 1
    assert "Line 2 has no key" in stopped.err
    assert ottla("consume", topic, "-B", "-e").lines == ["1"]  # delivers the records read before the error


def test_json_lines_carry_messages_from_topic_to_topic_unchanged(ottla, topic, unique):
    ottla("produce", topic, "-p", 2, "-k", "k", "-H", "h=v", stdin=b"text\n\xff\x00\xfe\n")
    ottla("produce", topic, "-p", 1, "-K", ":", "--null-marker", "NIL", stdin=b"key:NIL\n")
    copy = unique("copy")
    ottla("topics", "create", copy, "-p", 3)
    exported = ottla("consume", topic, "-B", "-e", "--json").out
    ottla("produce", copy, "--json-lines", stdin=exported)
    imported = ottla("consume", copy, "-B", "-e", "--json").out
    ottla("topics", "delete", copy, "--yes")

    def content(lines):
        rows = [json.loads(line) for line in lines.splitlines()]
        return sorted(json.dumps(row | {"topic": ""}) for row in rows)

    assert content(imported) == content(exported)
    assert {"base64": "/wD+"} in [json.loads(line)["value"] for line in exported.splitlines()]


def test_json_lines_take_structured_values_and_report_bad_ones(ottla, topic):
    good = b'{"value": {"n": [1, 2]}, "partition": 0, "headers": {"a": "b"}, "timestamp": 1700000000000}\n'
    bad = ottla("produce", topic, "--json-lines", stdin=good + b"{nonsense\n", check=False)
    assert bad.code == 1
    assert "Line 2" in bad.err
    [row] = [json.loads(line) for line in ottla("consume", topic, "-B", "-e", "--json").lines]
    assert (row["value"], row["timestamp"], row["headers"]) == ('{"n":[1,2]}', 1700000000000, [["a", "b"]])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(ottla, topic, codec):
    ottla("produce", topic, "-p", 0, "--compression", codec, stdin=b"hello\n" * 100)
    assert ottla("consume", topic, "-B", "-e").out == b"hello\n" * 100


@pytest.mark.parametrize("options", [("--acks", "0"), ("--acks", "1"), ("--acks", "all", "--idempotent")])
def test_every_kind_of_acknowledgement(ottla, topic, options):
    ottla("produce", topic, "-p", 0, *options, stdin=b"x\n")
    assert ottla("consume", topic, "--partition", 0, "--offset", 0, "-n", 1).lines == ["x"]


def test_a_file_is_sent_whole(ottla, topic, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_bytes(b"".join(b"%d\n" % i for i in range(20_000)))
    summary = ottla("produce", topic, "--file", file, "--json").json
    assert (summary["messages"], summary["failed"]) == (20_000, 0)
    read = ottla("consume", topic, "-B", "-e")
    assert sorted(map(int, read.lines)) == list(range(20_000))


def test_what_is_not_delivered_is_an_error(ottla, topic):
    lost = ottla("produce", topic, "-m", "x", "--partition", 99, check=False)
    assert lost.code == 1
    assert "1 of 1 messages were not delivered: Topic" in lost.err
    large = ottla("produce", topic, "-p", 0, stdin=b"x" * 2_000_000, check=False)
    assert large.code == 1
    assert "larger than the broker accepts" in large.err


def test_a_compacted_topic_says_that_it_wants_keys(ottla, unique):
    name = unique("compacted")
    ottla("topics", "create", name, "--config", "cleanup.policy=compact")
    failed = ottla("produce", name, stdin=b"no key\n", check=False)
    assert failed.code == 1
    assert failed.err.endswith("A compacted topic (cleanup.policy=compact) takes only messages with a key.\n")
    ottla("produce", name, "--key", "k", stdin=b"with a key\n")


def test_max_messages_and_positions(ottla, topic):
    ottla("produce", topic, "-p", 1, stdin=b"0\n1\n2\n3\n4\n")
    assert ottla("consume", topic, "-B", "-n", 2).lines == ["0", "1"]
    assert ottla("consume", topic, "-p", 1, "--offset", 3, "-e").lines == ["3", "4"]
    assert ottla("consume", topic, "--offset", "-2", "-e").lines == ["3", "4"]
    assert ottla("consume", topic, "-e").lines == []  # starts at the end: no records
    outside = ottla("consume", topic, "-p", 1, "--offset", 17, check=False)
    assert outside.err == f"Error: Offset 17 is not in partition 1 of topic '{topic}', which holds 0 to 5.\n"


def test_positions_by_time(ottla, topic):
    rows = [{"value": str(n), "partition": 0, "timestamp": 1_700_000_000_000 + n * 1000} for n in range(5)]
    ottla("produce", topic, "--json-lines", stdin="\n".join(map(json.dumps, rows)).encode())
    later = ottla("consume", topic, "--from-timestamp", "2023-11-14T22:13:23Z", "-e")
    assert later.lines == ["3", "4"]
    assert ottla("consume", topic, "--since", "1h", "-e").lines == []
    ottla("produce", topic, "-m", "now")
    assert ottla("consume", topic, "--since", "1h", "-e").lines == ["now"]


def test_format_templates(ottla, topic):
    ottla("produce", topic, "-p", 2, "-m", "val", "-k", "key", "-H", "a=b")
    shown = ottla("consume", topic, "-B", "-e", "--format", r"%t[%p]@%o\t%k=%v %h %K/%S 100%%\n")
    assert shown.text == f"{topic}[2]@0\tkey=val a=b 3/3 100%\n"
    details = ottla("consume", topic, "-B", "-e", "--details").text
    assert f"{topic}-2@0  key=key  headers=a=b  val\n" in details
    wrong = ottla("consume", topic, "--format", "%q", check=False)
    assert wrong.err.startswith("Error: '%q' means nothing in a format")


def test_several_topics_at_once(ottla, topic, unique):
    other = unique("other")
    ottla("topics", "create", other)
    ottla("produce", topic, "-m", "a")
    ottla("produce", other, "-m", "b")
    assert sorted(ottla("consume", topic, other, "-B", "-e").lines) == ["a", "b"]
    ottla("topics", "delete", other, "--yes")


def test_a_group_goes_on_where_it_left_off(ottla, topic, group):
    ottla("produce", topic, "-p", 0, stdin=b"1\n2\n3\n4\n")
    assert ottla("consume", topic, "--group", group, "--from-beginning", "-n", 2).lines == ["1", "2"]
    assert ottla("consume", topic, "--group", group, "--from-beginning", "--until-end").lines == ["3", "4"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_the_count(ottla, topic, number):
    ottla("produce", topic, "-m", "here")
    process = ottla.start("consume", topic, "--from-beginning")
    assert process.stdout.readline() == b"here\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, b"", b"Processed a total of 1 messages\n")


def test_new_messages_arrive_while_following(ottla, topic):
    ottla("produce", topic, "-m", "first")
    process = ottla.start("consume", topic, "--from-beginning")
    assert process.stdout.readline() == b"first\n"
    ottla("produce", topic, "-m", "second")
    assert process.stdout.readline() == b"second\n"
    process.terminate()
    process.communicate(timeout=20)


def test_the_reader_may_leave(ottla, topic):
    ottla("produce", topic, "-m", "here")
    process = ottla.start("consume", topic, "--from-beginning")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_lines_are_sent_as_they_are_typed(ottla, topic):
    reader, writer = os.pipe()
    process = ottla.start("produce", topic, "-p", 0, stdin=reader)
    os.close(reader)
    os.write(writer, b"early\n")
    assert ottla("consume", topic, "-B", "-n", 1).lines == ["early"]
    os.close(writer)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_an_unknown_topic_is_not_created_by_reading_it(ottla, unique):
    name = unique("unknown")
    started = time.monotonic()
    missing = ottla("consume", name, check=False)
    assert time.monotonic() - started < 10
    assert missing.err == f"Error: Topic '{name}' does not exist.\n"
    assert name not in ottla("topics", "list").text


def test_options_that_contradict_each_other_are_refused(alone):
    for args in (
        ("consume", "t", "--group", "g", "--offset", "3"),
        ("consume", "t", "--since", "1h", "--from-beginning"),
        ("consume", "t", "--since", "soon"),
        ("consume", "t", "--json", "--details"),
        ("consume", "t", "u", "--partition", "0"),
        ("produce", "t", "-m", "x", "--file", "y"),
        ("produce", "t", "-H", "nonsense"),
        ("produce", "t", "--idempotent", "--acks", "1"),
    ):
        assert alone(*args, check=False).code == 2, args


def test_messages_without_a_key_are_spread_evenly(ottla, topic):
    ottla("produce", topic, stdin=b"".join(b"%030d\n" % number for number in range(6000)))
    [described] = ottla("topics", "describe", topic, "--json").json
    counts = [part["end_offset"] for part in described["partitions"]]
    assert sum(counts) == 6000
    assert max(counts) - min(counts) < 900  # one turn of 16,384 bytes


def test_a_turn_ends_after_so_many_bytes_and_each_partition_has_one():
    partitioner = StickyPartitioner(lambda: [0, 1, 2], batch_size=100)
    chosen = [partitioner.choose(17) for _ in range(12)]  # 25 bytes each, including the record overhead
    turns = [chosen[start : start + 4] for start in range(0, 12, 4)]
    assert all(len(set(turn)) == 1 for turn in turns)
    assert {turn[0] for turn in turns} == {0, 1, 2}


def test_lines_typed_by_hand_go_to_one_partition_after_another():
    partitioner = RoundRobinPartitioner(lambda: [0, 1, 2])
    chosen = [partitioner.choose(5) for _ in range(7)]
    assert all((before + 1) % 3 == after for before, after in pairwise(chosen))


def test_records_without_a_value_take_turns_too():
    partitioner = StickyPartitioner(lambda: [0, 1], batch_size=16)
    assert sorted(partitioner.choose(0) for _ in range(4)) == [0, 0, 1, 1]


def test_partitions_without_a_leader_have_no_turn():
    led = [0, 1, 2]
    partitioner = StickyPartitioner(lambda: list(led), batch_size=1)
    assert {partitioner.choose(1) for _ in range(3)} == {0, 1, 2}
    led.remove(1)
    partitioner.look_again()
    assert {partitioner.choose(1) for _ in range(20)} == {0, 2}


def test_as_long_as_no_partition_is_known_the_library_chooses():
    assert StickyPartitioner(list).choose(1) == UNASSIGNED


def test_idempotence_is_what_kafkas_producer_makes_of_its_settings():
    assert idempotence({})
    assert idempotence({"acks": "-1", "retries": "3", "max.in.flight.requests.per.connection": "5"})
    assert not idempotence({}, default=False)
    many = {"max.in.flight.requests.per.connection": "6"}
    for given in ({"acks": "1"}, {"acks": "0"}, {"retries": "0"}, {"enable.idempotence": "false"}, many):
        assert not idempotence(given)
    with pytest.raises(
        JobError, match=r"^Cannot set a transactional\.id without also enabling idempotence\.$"
    ):
        idempotence({"transactional.id": "t", "acks": "1"})
    with pytest.raises(JobError, match=r"must be set to at most 5\. Current value is 6\.$"):
        idempotence({"enable.idempotence": "true", **many})


def test_a_file_without_retries_is_sent_without_idempotence(ottla, topic, tmp_path):
    file = tmp_path / "lines"
    file.write_text("a\n")
    ottla("produce", topic, "--file", file, "-X", "retries=0")
    refused = ottla("produce", topic, "--file", file, "-X", "retries=0", "--idempotent", check=False)
    assert "Must set retries to non-zero when using the idempotent producer." in refused.err
