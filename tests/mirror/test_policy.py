"""Topic names on the other side, and the selection of topics."""

from pathlib import Path

import pytest

from ottla.mirror.policy import IdentityReplicationPolicy, NameFilter, ReplicationPolicy
from ottla.mirror.settings import BadMirrorSettings, FlowSettings, parse_flows

TWO = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}


def flow(**more: str) -> FlowSettings:
    properties = (
        TWO | {"A->B.enabled": "true"} | {name.replace("__", "->"): value for name, value in more.items()}
    )
    return next(each for each in parse_flows(properties) if each.name == "A->B")


def test_a_topic_is_called_by_its_cluster_elsewhere() -> None:
    policy = ReplicationPolicy()
    assert policy.remote_topic("A", "t") == "A.t"
    assert policy.topic_source("A.t") == "A"
    assert policy.upstream_topic("B.A.t") == "A.t"
    assert policy.original_topic("B.A.t") == "t"
    assert policy.topic_source("t") is None


def test_another_separator_is_used_for_topics_and_not_for_internal_ones() -> None:
    policy = ReplicationPolicy("_")
    assert policy.remote_topic("A", "t") == "A_t"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"


def test_what_has_been_on_the_target_does_not_come_back() -> None:
    policy = ReplicationPolicy()
    assert policy.is_cycle("B.t", "B")
    assert policy.is_cycle("A.B.t", "B")
    assert not policy.is_cycle("A.t", "B")
    assert not policy.is_cycle("t", "B")


def test_identity_keeps_names_but_for_heartbeats() -> None:
    policy = IdentityReplicationPolicy("A")
    assert policy.remote_topic("A", "t") == "t"
    assert policy.remote_topic("A", "heartbeats") == "A.heartbeats"
    assert not policy.is_cycle("t", "B")


@pytest.mark.parametrize("name", ["t", "orders.eu", "heartbeats", "C.heartbeats"])
def test_ordinary_topics_and_heartbeats_are_copied(name: str) -> None:
    assert flow().should_copy(name)


@pytest.mark.parametrize(
    "name",
    [
        "__consumer_offsets",
        "mm2-configs.B.internal",
        "A.checkpoints.internal",
        "B.t",
        "x.replica",
        "mm2-offset-syncs.B.internal",
    ],
)
def test_internal_topics_and_what_came_from_the_target_are_not(name: str) -> None:
    assert not flow().should_copy(name)


def test_filters_are_lists_of_expressions_for_whole_names() -> None:
    wanted = NameFilter(["a.*", "b"], ["ab"])
    assert [name for name in ("a", "ax", "ab", "b", "bx") if wanted(name)] == ["a", "ax", "b"]


def test_the_settings_of_a_flow_win_over_those_for_all() -> None:
    found = flow(topics="x", A__B_topics="unused", **{"A->B.topics": "y", "replication.factor": "1"})
    assert found.should_copy("y")
    assert not found.should_copy("x")
    assert found.replication_factor == 1


def test_defaults_are_those_of_mirror_maker() -> None:
    found = flow()
    assert (found.refresh_topics, found.emit_checkpoints, found.emit_heartbeats) == (600, 60, 1)
    assert found.sync_group_offsets == 0
    assert found.replication_factor == 2
    assert not found.groups("console-consumer-17")
    assert not found.configs("min.insync.replicas")
    assert found.configs("retention.ms")


def test_the_way_back_has_heartbeats_only() -> None:
    back = next(each for each in parse_flows(TWO | {"A->B.enabled": "true"}) if each.name == "B->A")
    assert not back.enabled
    assert back.emit_heartbeats == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"clusters": "A"}, "clusters must name at least two clusters"),
        ({"clusters": "A, A"}, "twice"),
        ({"A->C.enabled": "true"}, "is about cluster 'C'"),
        ({"B.bootstrap.servers": ""}, "where is cluster B?"),
        ({"A->B.enabled": "false"}, "No flow is enabled"),
        ({"A->B.enabled": "yes"}, "must be true or false"),
        ({"A->B.replication.factor": "two"}, "must be a whole number"),
        (
            {"replication.policy.class": "Mine"},
            "must be DefaultReplicationPolicy or IdentityReplicationPolicy",
        ),
        ({"A->B.topics": "("}, "is not a list of regular expressions"),
        ({"offset-syncs.topic.location": "moon"}, "must be source or target"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(change: dict[str, str], sentence: str) -> None:
    from ottla.client.errors import ClientError

    with pytest.raises(ClientError) as failure:
        parse_flows(TWO | {"A->B.enabled": "true"} | change)
    assert sentence in failure.value.message


def test_only_flows_into_the_named_clusters_run() -> None:
    flows = parse_flows(TWO | {"A->B.enabled": "true"}, ["B"])
    assert [each.name for each in flows] == ["A->B"]
    with pytest.raises(BadMirrorSettings, match="There is no cluster 'C'"):
        parse_flows(TWO, ["C"])


def test_a_mirror_beside_a_cluster_that_nothing_is_copied_to_has_heartbeats() -> None:
    """All clusters' mirrors share one file, each with its own --clusters."""
    flows = parse_flows(TWO | {"A->B.enabled": "true"}, ["A"])
    assert [(each.name, each.enabled, each.emit_heartbeats) for each in flows] == [("B->A", False, 1)]
    with pytest.raises(BadMirrorSettings, match="Nothing flows into A"):
        parse_flows(TWO | {"A->B.enabled": "true", "emit.heartbeats.enabled": "false"}, ["A"])


@pytest.mark.parametrize(
    "name",
    [
        "A.consumer.auto.offset.reset",
        "A->B.consumer.auto.offset.reset",
        "A->B.source.consumer.auto.offset.reset",
        "consumer.auto.offset.reset",
    ],
)
def test_where_to_begin_is_a_setting_of_the_consumers(name: str) -> None:
    assert flow(**{name: "latest"}).start_at_latest
    assert not flow(**{"B.consumer.auto.offset.reset": "latest"}).start_at_latest
    with pytest.raises(BadMirrorSettings, match="must be earliest or latest, not 'never'"):
        flow(**{name: "never"})


def test_secrets_are_looked_up_by_config_providers(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("server=kafka.example.org:9093\n")
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    given = {
        "config.providers": "file",
        "config.providers.file.class": provider,
        "B.bootstrap.servers": f"${{file:{tmp_path}/secrets:server}}",
    }
    found = flow(**given)
    assert found.target.properties["bootstrap.servers"] == "kafka.example.org:9093"
    assert found.target.settings.servers == "kafka.example.org:9093"


@pytest.mark.parametrize(
    "names",
    [
        {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
        {"add.source.alias.to.remote.topic": "false"},
    ],
)
def test_topics_that_keep_their_names_are_not_copied_in_a_circle(names: dict[str, str]) -> None:
    both = TWO | {"A->B.enabled": "true", "B->A.enabled": "true"}
    assert len(parse_flows(both)) == 2
    with pytest.raises(BadMirrorSettings, match="A->B and B->A copy the same topics under their own names"):
        parse_flows(both | names)
    assert len(parse_flows(both | names | {"A->B.topics": "a.*", "B->A.topics": "b.*"})) == 2
    assert len(parse_flows(both | names | {"B->A.enabled": "false"})) == 2
