"""kafka-console-producer and kafka-console-consumer."""

import signal
import subprocess
import time
from collections import Counter

from tests.shell import wait_until


def test_lines_go_in_and_come_out(tools, topic):
    assert tools("console-producer", "--topic", topic, stdin="one\ntwo\nthree\n").out == ""
    read = tools("console-consumer", "--topic", topic, "--from-beginning", "--max-messages", 3)
    assert sorted(read.lines) == ["one", "three", "two"]
    assert read.err == "Processed a total of 3 messages\n"


def test_keys_headers_and_nulls(tools, kafka_broker, unique):
    name = unique("t")
    kafka_broker.create_topic(name)
    tools(
        "console-producer", "--topic", name, "--reader-property", "parse.key=true", "--reader-property",
        "parse.headers=true", "--reader-property", "null.marker=NULL", "--compression-codec", "zstd",
        stdin="h1:v1,h2:v2\tk\tv\nNULL\tNULL\tNULL\n",
    )  # fmt: skip
    properties = ("print.key", "print.partition", "print.offset", "print.headers")
    options = [part for name in properties for part in ("--formatter-property", f"{name}=true")]
    read = tools("console-consumer", "--topic", name, "--from-beginning", "--max-messages", 2, *options)
    assert read.lines == [
        "Partition:0\tOffset:0\th1:v1,h2:v2\tk\tv",
        "Partition:0\tOffset:1\tNO_HEADERS\tnull\tnull",
    ]
    stamped = tools(
        "console-consumer", "--topic", name, "--partition", 0, "--offset", 0, "--max-messages", 1, "--property",
        "print.timestamp=true", "--property", "key.separator=;",
    )  # fmt: skip
    assert stamped.out.startswith("CreateTime:")
    assert stamped.out.endswith(";v\n")


def test_a_line_without_key_ends_the_producer(tools, topic):
    failed = tools(
        "console-producer", "--broker-list", tools.bootstrap, "--topic", topic, "--property", "parse.key=true",
        "--property", "key.separator=,", stdin="k,v\nnokey\n", code=1,
    )  # fmt: skip
    assert failed.err.splitlines()[-1] == "No key separator found on line number 2: 'nokey'"


def test_an_unknown_topic_is_created_after_a_warning(tools, unique):
    name = unique("new")
    produced = tools("console-producer", "--topic", name, "--producer-property", "acks=all", stdin="hello\n")
    assert f"{{{name}=LEADER_NOT_AVAILABLE}}" in produced.err
    assert "PartitionCount: 3" in tools("topics", "--describe", "--topic", name).out


def test_a_consumer_ends_when_nothing_comes(tools, topic):
    read = tools("console-consumer", "--topic", topic, "--timeout-ms", 300)
    assert read.err == "Processed a total of 0 messages\n"


def test_the_group_of_a_properties_file_continues_where_it_was(tools, topic, group, tmp_path):
    config = tmp_path / "group.properties"
    config.write_text(f"group.id={group}\n")
    tools("console-producer", "--topic", topic, stdin="a\nb\nc\n")
    options = ("--topic", topic, "--consumer.config", config, "--from-beginning")
    first = tools("console-consumer", *options, "--max-messages", 1).lines
    rest = tools("console-consumer", *options, "--max-messages", 2).lines
    assert sorted(first + rest) == ["a", "b", "c"]
    failed = tools("console-consumer", *options, "--group", "other", code=1)
    assert "do not match" in failed.err


def test_a_group_begins_in_every_partition_where_its_first_member_did(tools, topic, group):
    """This includes partitions from which that member read nothing, although "latest" is later for the second."""
    for partition, line in enumerate(("a", "b", "c")):
        keyed = f"{partition}\t{line}\n"
        tools("console-producer", "--topic", topic, "--property", "parse.key=true", stdin=keyed)
    read = ("console-consumer", "--topic", topic, "--group", group, "--max-messages")
    first = tools(*read, 1, "--from-beginning").lines
    rows = tools("consumer-groups", "--describe", "--group", group).lines[2:]
    assert sorted(line.split()[3] for line in rows) == ["0", "0", "1"]
    assert sorted(first + tools(*read, 2).lines) == ["a", "b", "c"]


def test_a_group_that_waited_at_the_end_gets_what_came_while_it_was_away(tools, topic, group):
    read = ("console-consumer", "--topic", topic, "--group", group)
    tools("console-producer", "--topic", topic, stdin="before\n")

    def committed() -> list[str]:
        described = tools("consumer-groups", "--describe", "--group", group, code=None)
        return [line.split()[3] for line in described.lines[2:]]

    assigned = tools.start(*read)
    try:
        wait_until(lambda: sorted(committed()) == ["0", "0", "1"])
        assigned.send_signal(signal.SIGINT)
        assert assigned.communicate(timeout=20)[1] == "Processed a total of 0 messages\n"
    finally:
        assigned.kill()
    tools("console-producer", "--topic", topic, stdin="after\n")
    assert tools(*read, "--max-messages", 1).lines == ["after"]


def test_ctrl_c_says_how_many_there_were(tools, topic):
    tools("console-producer", "--topic", topic, stdin="a\nb\n")
    process = tools.start("console-consumer", "--topic", topic, "--from-beginning")
    try:
        assert sorted([process.stdout.readline(), process.stdout.readline()]) == ["a\n", "b\n"]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert said == "Processed a total of 2 messages\n"
    assert process.returncode == 130


def test_wrong_usage(tools):
    for args, sentence in (
        ([], "Exactly one of the following arguments is required: [topic], [include]"),
        (["--topic", "t", "--offset", 1], "The partition is required when offset is specified."),
        (["--include", "t", "--partition", 1], "The topic is required when partition is specified."),
        (["--topic", "t", "--partition", 0, "--offset", "x"], "The provided offset value 'x' is incorrect."),
        (["--topic", "t", "--formatter", "Nope"], "There is no formatter 'Nope'."),
    ):
        assert sentence in tools("console-consumer", *args, code=1).err


CUSTOMERS = 12_434


def test_every_customer_arrives_once_at_a_group_of_two(tools, topic, group, tmp_path):
    rows = [f"{number},customer {number},{number % 97}" for number in range(CUSTOMERS)]
    file = tmp_path / "customers.csv"
    file.write_text("".join(f"{row}\n" for row in rows))
    outputs = [tmp_path / "one", tmp_path / "two"]
    members = []
    try:
        for output in outputs:
            with open(output, "wb") as sink:
                command = tools.command(
                    "console-consumer", "--topic", topic, "--group", group, "--from-beginning"
                )
                members.append(
                    subprocess.Popen(command, env=tools.environment, stdout=sink, stderr=subprocess.DEVNULL)
                )
        _wait_for_members(tools, group, 2)
        with open(file, "rb") as lines:
            subprocess.run(
                tools.command(
                    "console-producer", "--topic", topic, "--property", "parse.key=true", "--property",
                    "key.separator=,",
                ),
                env=tools.environment, stdin=lines, check=True, capture_output=True, timeout=60,
            )  # fmt: skip
        _wait_for_lines(outputs, CUSTOMERS)
        shares = [
            line.split()[4]
            for line in tools("consumer-groups", "--describe", "--group", group, "--members").lines[2:]
        ]
    finally:
        for member in members:
            member.send_signal(signal.SIGINT)
        for member in members:
            member.wait(20)
    assert sorted(shares) == ["1", "2"]
    arrived = Counter(line for output in outputs for line in output.read_text().splitlines())
    assert arrived == Counter(row.partition(",")[2] for row in rows)
    assert all(output.stat().st_size for output in outputs)


def _wait_for_members(tools, group, count):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        described = tools("consumer-groups", "--describe", "--group", group, "--state", code=None)
        if described.code == 0 and described.lines[-1].split()[-2:] == ["Stable", str(count)]:
            return
        time.sleep(0.2)
    raise AssertionError(described.out)


def _wait_for_lines(outputs, count):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if sum(output.read_bytes().count(b"\n") for output in outputs) >= count:
            return
        time.sleep(0.1)


def test_events_and_messages_that_cannot_be_printed(tools, topic):
    tools("console-producer", "--topic", topic, stdin="not a number\n")
    args = (
        "console-consumer",
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "1",
        "--timeout-ms",
        "20000",
    )
    assert tools(*args, "--enable-systest-events").out == "not a number\nshutdown_complete\n"
    long = ("--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer")
    assert tools(*args, *long, code=1).out == ""
    skipped = tools(*args, *long, "--skip-message-on-error")
    assert skipped.err.splitlines()[-1] == "Processed a total of 1 messages"


def test_a_property_that_the_client_does_not_have_is_told_and_left_out(tools, topic):
    sent = tools("console-producer", "--topic", topic, "--command-property", "nope=1", stdin="a\n")
    assert "These configurations '[nope]' were supplied but are not used yet." in sent.err


def _counts(tools, topic):
    return [int(line.rpartition(":")[2]) for line in tools("get-offsets", "--topic", topic).lines]


def test_lines_without_a_key_are_spread_evenly(tools, topic):
    """Kafka's producer switches partitions after batch.size bytes, regardless of the input rate."""
    rows = "".join(f"{number},customer {number},{number % 97}\n" for number in range(CUSTOMERS))
    tools("console-producer", "--topic", topic, stdin=rows)
    counts = _counts(tools, topic)
    assert sum(counts) == CUSTOMERS
    # Lines of about 22 bytes and turns of 16,384 bytes: each partition gets a turn before any gets a second one.
    assert max(counts) - min(counts) < 1_200


def test_the_size_of_a_batch_is_the_size_of_a_turn(tools, topic):
    tools("console-producer", "--topic", topic, "--batch-size", "1", stdin="a\nb\nc\nd\ne\nf\n")
    assert _counts(tools, topic) == [2, 2, 2]


def test_settings_that_exclude_idempotence_turn_it_off(tools, topic):
    """Idempotence is only the default here, not an explicit setting."""
    many = "max.in.flight.requests.per.connection=10"
    for given in ("retries=0", "acks=1", "acks=0", "message.send.max.retries=0", many):
        tools("console-producer", "--topic", topic, "--producer-property", given, stdin="x\n")
    tools("console-producer", "--topic", topic, "--message-send-max-retries", 0, stdin="x\n")
    tools("console-producer", "--topic", topic, "--request-required-acks", 1, stdin="x\n")
    assert sum(_counts(tools, topic)) >= 6  # acks=0 gives no guarantee


def test_settings_that_exclude_an_idempotence_that_was_asked_for_are_refused(tools, topic):
    many = "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most 5. "
    for given, sentence in (
        (["retries=0"], "Must set retries to non-zero when using the idempotent producer."),
        (
            ["acks=1"],
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence.",
        ),
        (["max.in.flight.requests.per.connection=10"], f"{many}Current value is 10."),
    ):
        options = [
            part for one in ("enable.idempotence=true", *given) for part in ("--producer-property", one)
        ]
        refused = tools("console-producer", "--topic", topic, *options, stdin="x\n", code=1)
        assert refused.err.splitlines()[-1] == sentence
    assert _counts(tools, topic) == [0, 0, 0]


def test_compress_is_gzip_unless_a_codec_is_named(tools, alone, kafka_broker, unique):
    for given, codec in (
        (["--compress"], "GZIP"),
        (["--compress", "--compression-codec", "lz4"], "LZ4"),
        ([], "NONE"),
    ):
        name = unique("t")
        kafka_broker.create_topic(name)
        tools("console-producer", "--topic", name, *given, stdin="x" * 1000 + "\n")
        log = kafka_broker.data / f"{name}-0" / "00000000000000000000.log"
        assert f" compresscodec: {codec.lower()} " in alone("dump-log", "--files", log).out


def test_lines_of_any_length_and_a_last_one_without_end(tools, kafka_broker, unique):
    name = unique("t")
    kafka_broker.create_topic(name, config={"max.message.bytes": "10000000"})
    lines = ["", "a" * 2_500_000, "b", "", "c" * 1_048_576, "last"]
    tools("console-producer", "--topic", name, stdin="\r\n".join(lines))
    assert [record.value.decode() for record in kafka_broker.records(name)] == lines
