"""`ottla configs …` against a broker."""


def settings(ottla, *resource):
    return {row["name"]: row for row in ottla("configs", "describe", *resource, "--all", "--json").json}


def test_settings_of_a_topic_are_set_and_deleted_one_by_one(ottla, topic):
    ottla("configs", "set", "topic", topic, "retention.ms=1000", "cleanup.policy=compact,delete")
    ottla("configs", "delete", "topic", topic, "cleanup.policy")
    entries = settings(ottla, "topic", topic)
    assert entries["retention.ms"]["value"] == "1000"
    assert entries["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert entries["cleanup.policy"]["value"] == entries["cleanup.policy"]["default"] == "delete"
    assert entries["cleanup.policy"]["source"] == "DEFAULT_CONFIG"


def test_only_what_differs_from_the_default_is_shown(ottla, topic):
    ottla("configs", "set", "topics", topic, "segment.bytes=1048576")
    shown = ottla("configs", "describe", "topic", topic)
    rows = {line.split()[0]: line.split() for line in shown.lines}
    assert rows["NAME"] == ["NAME", "VALUE", "SOURCE", "DEFAULT", "READ-ONLY"]
    assert rows["segment.bytes"][:4] == ["segment.bytes", "1048576", "topic", "1073741824"]
    assert "cleanup.policy" not in rows
    assert "settings are at their defaults: --all shows them." in shown.err


def test_settings_of_a_broker(ottla, topic):
    number = ottla("topics", "describe", topic, "--json").json[0]["partitions"][0]["leader"]
    entries = settings(ottla, "broker", number)
    assert entries["log.retention.hours"]["default"] == "168"
    assert entries["log.dirs"]["read_only"]


def test_a_broker_that_is_not_there(ottla):
    missing = ottla("configs", "describe", "broker", 4711, check=False)
    assert missing.code == 1
    assert missing.err.startswith("Error: There is no broker 4711; the cluster has ")


def test_bad_names_and_values_are_one_sentence(ottla, topic):
    for pair in ("retention.ms=soon", "no.such.setting=1"):
        refused = ottla("configs", "set", "topic", topic, pair, check=False)
        assert refused.code == 1
        assert pair.split("=")[0] in refused.err
        assert len(refused.err.splitlines()) == 1


def test_a_missing_topic(ottla, unique):
    name = unique("missing")
    missing = ottla("configs", "describe", "topic", name, check=False)
    assert (missing.code, missing.err) == (1, f"Error: Topic '{name}' does not exist.\n")


def test_wrong_usage(alone):
    assert alone("configs", "describe", "user", "x", check=False).code == 2
    assert alone("configs", "describe", "broker", "x", check=False).code == 2
    assert alone("configs", "set", "topic", "x", "nonsense", check=False).code == 2
