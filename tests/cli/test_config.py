"""`ottla config`: explains every setting and checks files."""

from pathlib import Path

import pytest

from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS

CONFIG = Path(__file__).parents[2] / "config"


def settings(alone, *args):
    return {setting["name"]: setting for setting in alone("config", *args, "--json").json}


def test_every_setting_is_explained(alone):
    known = settings(alone)
    assert set(known) == {name for name, definition in BROKER_CONFIGS.items() if not definition.internal}
    for setting in known.values():
        assert setting["documentation"].endswith("."), setting["name"]
        assert setting["valid"]
    assert known["log.cleanup.policy"] == {
        "name": "log.cleanup.policy",
        "type": "list",
        "default": "delete",
        "default_alone": None,
        "valid": "one of compact, delete",
        "update_mode": "cluster-wide",
        "documentation": BROKER_CONFIGS["log.cleanup.policy"].documentation,
        "topic_settings": ["cleanup.policy"],
        "used": True,
        "value": None,
        "source": None,
    }


def test_a_setting_is_explained_in_words(alone):
    assert alone("config", "explain", "broker.id").lines == [
        "broker.id",
        "  The number of this broker in its cluster; -1 lets ZooKeeper give one.",
        "  Type     int",
        "  Default  -1 (0 for a broker on its own)",
        "  Valid    a whole number",
        "  Dynamic  no, it is read at the start",
    ]
    several = alone("config", "explain", "log.retention.*").lines
    assert "log.retention.hours" in several
    assert "log.retention.check.interval.ms" in several
    assert "num.partitions" not in several


def test_a_value_comes_from_a_line_of_the_file_or_is_a_default(alone, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("# mine\nnum.partitions=4\nlog.segment.ms=5000\nssl.keystore.password=secret\n")
    known = settings(alone, "--config", file)
    values = {name: (setting["value"], setting["source"]) for name, setting in known.items()}
    assert values["num.partitions"] == ("4", f"{file}:2")
    assert values["log.roll.ms"] == ("5000", f"{file}:3")
    assert values["ssl.keystore.password"] == ("(hidden)", f"{file}:4")
    assert values["log.retention.hours"] == ("168", "default")
    assert values["broker.id"] == ("0", "default of a broker on its own")
    file.write_text("zookeeper.connect=localhost:2181\n")
    clustered = settings(alone, "--config", file)
    assert clustered["offsets.topic.replication.factor"]["value"] == "3"
    assert clustered["offsets.topic.replication.factor"]["source"] == "default"


# Settings from runbooks and courses
COMMON = [
    "broker.id",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "zookeeper.connect",
    "num.partitions",
    "default.replication.factor",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.retention.bytes",
    "log.segment.bytes",
    "log.roll.ms",
    "log.cleanup.policy",
    "log.cleaner.backoff.ms",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "auto.create.topics.enable",
    "delete.topic.enable",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "group.initial.rebalance.delay.ms",
    "broker.rack",
    "replica.lag.time.max.ms",
    "message.max.bytes",
    "log.message.timestamp.type",
]


def test_what_everybody_sets_has_an_effect_and_what_has_none_says_so(alone):
    known = settings(alone)
    assert [name for name in COMMON if not known[name]["used"]] == []
    assert "  Effect   none: Ottla does not use it" in alone("config", "explain", "num.io.threads").lines


def test_an_unknown_key_is_answered_with_the_nearest(alone):
    failed = alone("config", "explain", "log.retention.hour", check=False)
    assert (
        "'log.retention.hour' is not a setting of a broker. Did you mean 'log.retention.hours'?" in failed.err
    )


def test_the_known_among_several_keys_are_explained(alone):
    failed = alone("config", "explain", "broker.id", "no.such", "num.partition", "log.dirs", check=False)
    assert failed.code == 1
    assert [line for line in failed.lines if line and line[0] != " "] == ["broker.id", "log.dirs"]
    assert failed.err.splitlines() == [
        "Error: 'no.such' is not a setting of a broker.",
        "Error: 'num.partition' is not a setting of a broker. Did you mean 'num.partitions'?",
    ]


def test_a_file_is_checked_whole(alone, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        "broker.id=abc\nnum.partition=3\nnum.partitions=2\nlog.retention.hours=x\nnum.partitions=3\n"
    )
    checked = alone("config", "check", file, check=False)
    assert checked.code == 1
    assert checked.err.splitlines() == [
        f"Warning: {file}:5: num.partitions is set again; what line 3 says is ignored.",
        f"Warning: {file}:2: num.partition is not a setting of a broker and is ignored; did you mean num.partitions?",
        f"Error: {file}:1: broker.id cannot be 'abc'; give a whole number.",
        f"Error: {file}:4: log.retention.hours cannot be 'x'; give a whole number.",
    ]
    assert checked.text == ""
    document = alone("config", "check", file, "--json", check=False).json
    assert (len(document["errors"]), len(document["warnings"])) == (2, 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("listeners=PLAINTEXT://:9092,PLAINTEXT://:9092\n", "listeners cannot be"),
        (
            "listeners=SASL_SSL://:9092\n",
            "Listener SASL_SSL asks for TLS, but has no certificate: set ssl.keystore.location",
        ),
        ("broker.id=1\nnode.id=2\n", "node.id is 2 but broker.id is 1; set one of them."),
        ("num.partitions=\\u12\n", "\\u needs four hexadecimal digits."),
        ("log.retention.ms=0\n", "log.retention.ms must be unlimited (-1) or, equal or greater than 1."),
    ],
)
def test_what_a_broker_would_refuse_is_an_error(alone, tmp_path, text, sentence):
    file = tmp_path / "server.properties"
    file.write_text(text)
    checked = alone("config", "check", file, check=False)
    assert checked.code == 1
    assert len(checked.err.splitlines()) == 1
    assert sentence in checked.err


def test_a_warning_alone_is_no_failure(alone, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("process.roles=broker\n")
    checked = alone("config", "check", file)
    assert "process.roles is a setting of Kafka that Ottla does not use; it is ignored." in checked.err
    assert checked.text == f"{file}: no errors.\n"


@pytest.mark.parametrize("name", ["server", "server0", "server1", "server2"])
def test_the_files_to_start_from_are_sound(alone, name):
    checked = alone("config", "check", CONFIG / f"{name}.properties")
    assert checked.err == ""


def test_three_brokers_on_one_machine_do_not_collide(alone):
    found = [settings(alone, "--config", CONFIG / f"server{number}.properties") for number in range(3)]
    for name in ("broker.id", "listeners", "log.dirs"):
        assert len({setting[name]["value"] for setting in found}) == 3
    assert {setting["zookeeper.connect"]["value"] for setting in found} == {"localhost:2181"}


def test_a_file_that_is_not_there(alone):
    assert (
        "Cannot read no-file: No such file or directory."
        in alone("config", "check", "no-file", check=False).err
    )
    assert "Cannot read no-file" in alone("config", "--config", "no-file", check=False).err


def test_kafkas_classic_files_are_written_and_start_the_oldest_tutorial(alone, tmp_path):
    written = alone("config", "init", tmp_path / "config")
    assert "config: 13 files written." in str(written)
    for name in ("server.properties", "zookeeper.properties", "server2.properties"):
        assert (tmp_path / "config" / name).read_text() == (CONFIG / name).read_text()
    lines = (tmp_path / "config" / "server.properties").read_text().splitlines()
    assert "zookeeper.connect=localhost:2181" in lines
    (tmp_path / "config" / "server.properties").write_text("mine")
    assert "0 files written" in str(alone("config", "init", tmp_path / "config"))
    assert (tmp_path / "config" / "server.properties").read_text() == "mine"


def test_a_file_of_another_kind_is_refused_in_one_sentence(alone, tmp_path):
    prose = tmp_path / "letter.txt"
    prose.write_text("Dear Ottla,\nI write to you from Zürau.\nThe mice are loud.\n")
    [said] = alone("config", "check", prose, check=False).err.splitlines()
    assert f"{prose} is not a server.properties: it sets nothing that a broker knows" in said
    kraft = tmp_path / "kraft.properties"
    kraft.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
    )
    [said] = alone("config", "check", kraft, check=False).err.splitlines()
    assert "is for Kafka in KRaft mode (process.roles)" in said
    assert "Remove CONTROLLER from listeners" in said
