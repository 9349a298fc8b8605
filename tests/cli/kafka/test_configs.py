"""kafka-configs, compared with the output of Kafka's tool."""


def test_settings_of_a_topic_are_added_described_and_deleted(tools, topic):
    entity = ("--entity-type", "topics", "--entity-name", topic)
    assert tools("configs", *entity, "--describe").out == f"Dynamic configs for topic {topic} are:\n"
    added = tools(
        "configs", *entity, "--alter", "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]"
    )
    assert added.out == f"Completed updating config for topic {topic}.\n"
    assert tools("configs", "--topic", topic, "--describe").lines == [
        f"Dynamic configs for topic {topic} are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        "DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
    ]
    tools("configs", *entity, "--alter", "--delete-config", "retention.ms,cleanup.policy")
    assert tools("configs", *entity, "--describe").out == f"Dynamic configs for topic {topic} are:\n"


def test_all_settings_of_a_topic(tools, topic):
    described = tools("configs", "--topic", topic, "--describe", "--all")
    assert described.lines[0] == f"All configs for topic {topic} are:"
    assert (
        "  segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}"
        in (described.lines)
    )


def test_settings_of_brokers(tools):
    assert tools("configs", "--entity-type", "brokers", "--describe").lines == [
        "Dynamic configs for broker 0 are:",
        "Default configs for brokers in the cluster are:",
    ]
    entity = ("--entity-type", "brokers", "--entity-default")
    added = tools("configs", *entity, "--alter", "--add-config", "log.retention.ms=123456")
    assert added.out == "Completed updating default config for brokers in the cluster.\n"
    assert (
        tools("configs", *entity, "--describe")
        .lines[1]
        .startswith("  log.retention.ms=123456 sensitive=false")
    )
    tools("configs", *entity, "--alter", "--delete-config", "log.retention.ms")


def test_what_is_not_there(tools):
    for kind, entity in (("topic", "nowhere"), ("broker", "99"), ("group", "nobody")):
        described = tools("configs", f"--{kind}", entity, "--describe")
        assert described.out == f"The {kind} '{entity}' doesn't exist and doesn't have dynamic config.\n"


def test_a_refused_setting(tools, topic):
    failed = tools("configs", "--topic", topic, "--alter", "--add-config", "nope=1", code=1)
    first, second = failed.err.splitlines()
    assert first.startswith("Error while executing config command with args '")
    assert second.startswith("Unknown topic config name: nope")


def test_wrong_usage(tools):
    for args, sentence in (
        (["--describe"], "At least one entity type must be specified"),
        (["--entity-type", "nopes", "--describe"], "Invalid entity type nopes"),
        (
            ["--entity-type", "topics", "--alter", "--add-config", "a=b"],
            "An entity name must be specified with",
        ),
        (["--topic", "t", "--alter"], "At least one of --add-config"),
        (["--topic", "t"], "exactly one action"),
        (
            ["--topic", "t", "--broker", "0", "--describe"],
            "Only 'users' and 'clients' entity types may be specified together",
        ),
    ):
        assert sentence in tools("configs", *args, code=1).err


def test_quotas_of_users_and_clients(tools, unique):
    name = unique("c")
    entity = ("--entity-type", "clients", "--entity-name", name)
    added = tools(
        "configs", *entity, "--alter", "--add-config", "producer_byte_rate=1000,consumer_byte_rate=20000000"
    )
    assert added.out == f"Completed updating config for client {name}.\n"
    [line] = tools("configs", *entity, "--describe").lines
    assert line.startswith(f"Quota configs for client-id '{name}' are ")
    assert sorted(line.partition(" are ")[2].split(", ")) == [
        "consumer_byte_rate=2.0E7",
        "producer_byte_rate=1000.0",
    ]
    assert line in tools("configs", "--entity-type", "clients", "--describe").lines
    tools("configs", *entity, "--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert tools("configs", *entity, "--describe").out == ""
    both = ("--user", name, "--client-defaults")
    tools("configs", *both, "--alter", "--add-config", "request_percentage=50")
    described = tools("configs", *both, "--describe").out
    assert (
        described
        == f"Quota configs for user-principal '{name}', the default client-id are request_percentage=50.0\n"
    )
    tools("configs", *both, "--alter", "--delete-config", "request_percentage")
