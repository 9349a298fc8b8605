"""Parser for mm2.properties: clusters, the flows between them, and MirrorMaker's settings and defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.connect.config.providers import ConfigProviders
from ottla.mirror.policy import IdentityReplicationPolicy, NameFilter, ReplicationPolicy
from ottla.monitoring.audit.counting import AUDIT_OPTIONS, BadAuditOption, Tier, parse_tier
from ottla.spark.options import SECURITY_OPTIONS

_TOPICS_EXCLUDE = r"mm2.*\.internal,.*\.replica,__.*"
_GROUPS_EXCLUDE = r"console-consumer-.*,connect-.*,__.*"
_CONFIGS_EXCLUDE = (
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.difference\.max\.ms,log\.message\.timestamp\.before\.max\.ms,"
    r"log\.message\.timestamp\.after\.max\.ms,message\.timestamp\.type,unclean\.leader\.election\.enable,"
    r"min\.insync\.replicas"
)
_POLICIES = {
    "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": False,
    "DefaultReplicationPolicy": False,
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy": True,
    "IdentityReplicationPolicy": True,
}


class BadMirrorSettings(ClientError):
    """A setting is invalid. The message names the setting and its allowed values."""


@dataclass(frozen=True)
class Side:
    """One cluster of a flow."""

    alias: str
    settings: Settings
    properties: Mapping[str, str]

    def spark_options(self) -> dict[str, str]:
        """Return the options for Spark's source, which rejects unknown options."""
        known = {"bootstrap.servers", *SECURITY_OPTIONS}
        return {f"kafka.{name}": value for name, value in self.properties.items() if name in known}

    def __str__(self) -> str:
        return self.alias


@dataclass(frozen=True)
class FlowSettings:
    """Settings of the flow from `source` to `target`. Times are in seconds; 0 disables a task."""

    source: Side
    target: Side
    enabled: bool
    policy: ReplicationPolicy
    topics: NameFilter
    groups: NameFilter
    configs: NameFilter
    replication_factor: int
    refresh_topics: float
    sync_topic_configs: float
    sync_topic_acls: float
    refresh_groups: float
    emit_heartbeats: float
    emit_checkpoints: float
    sync_group_offsets: float
    heartbeats_replication_factor: int
    checkpoints_replication_factor: int
    offset_syncs_replication_factor: int
    offset_syncs_on_source: bool
    emit_offset_syncs: bool
    start_at_latest: bool
    skip_gaps: bool
    max_offsets_per_trigger: int
    add_source_alias: bool
    #: Source group whose committed offsets show the progress of the flow to other tools.
    commit_group: str | None = None
    #: Tier under which the audit counts records.
    audit: Tier | None = None

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    def should_copy(self, topic: str) -> bool:
        if self.policy.is_internal(topic) or self.policy.is_cycle(topic, self.target.alias):
            return False
        return self.topics(topic) or self.policy.is_heartbeats(topic)

    def remote_topic(self, topic: str) -> str:
        return self.policy.remote_topic(self.source.alias, topic) if self.add_source_alias else topic


class _Section:
    """Settings of one flow. They override the settings for all flows."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
        self._properties = properties
        self._prefix = prefix

    def text(self, name: str, default: str, *older: str) -> str:
        for each in (name, *older):
            for key in (f"{self._prefix}{each}", each):
                if key in self._properties:
                    return self._properties[key].strip()
        return default

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise BadMirrorSettings(f"{self._prefix}{name} must be true or false, not '{text}'.")
        return text == "true"

    def number(self, name: str, default: int) -> int:
        text = self.text(name, str(default))
        if not re.fullmatch(r"-?\d+", text):
            raise BadMirrorSettings(f"{self._prefix}{name} must be a whole number, not '{text}'.")
        return int(text)

    def patterns(self, name: str, default: str, *older: str) -> Sequence[str]:
        return _list(self.text(name, default, *older))

    def interval(self, switch: str, name: str, default: int, *, enabled: bool = True) -> float:
        """Return the interval in seconds, or 0 if the switch is off or the interval is not positive."""
        return max(0, self.number(name, default)) if self.flag(switch, enabled) else 0


def parse_flows(
    properties: Mapping[str, str], only_targets: Sequence[str] = (), *, refuse_circles: bool = True
) -> list[FlowSettings]:
    """Return a flow for every pair of clusters. Disabled flows only emit heartbeats. `only_targets` is --clusters."""
    properties = ConfigProviders.from_config(properties).resolved(properties)
    aliases = _list(properties.get("clusters", ""))
    if len(aliases) < 2:
        raise BadMirrorSettings("clusters must name at least two clusters, as in 'clusters = A, B'.")
    if len(set(aliases)) != len(aliases):
        raise BadMirrorSettings(f"clusters names one of '{', '.join(aliases)}' twice.")
    for each in only_targets:
        if each not in aliases:
            raise BadMirrorSettings(f"There is no cluster '{each}' in clusters = {', '.join(aliases)}.")
    _check_flow_names(properties, aliases)
    sides = {alias: _side(properties, alias) for alias in aliases}
    flows = [_flow(properties, sides[source], sides[target]) for source, target in permutations(aliases, 2)]
    if not any(flow.enabled for flow in flows):
        raise BadMirrorSettings(
            f"No flow is enabled. Add, for example, '{aliases[0]}->{aliases[1]}.enabled = true'."
        )
    if refuse_circles:
        _check_circles([flow for flow in flows if flow.enabled])
    # Mirrors next to each cluster share one file. A target without enabled flows may still receive heartbeats.
    flows = [flow for flow in flows if not only_targets or flow.target.alias in only_targets]
    if not any(flow.enabled or flow.emit_heartbeats for flow in flows):
        raise BadMirrorSettings(f"Nothing flows into {', '.join(only_targets)}: no such flow is enabled.")
    return flows


def _check_circles(flows: Sequence[FlowSettings]) -> None:
    """Refuse circular flows without alias prefixes: loops would go unnoticed and records would circulate forever."""
    kept = {
        (flow.source.alias, flow.target.alias): flow.topics.included
        for flow in flows
        if isinstance(flow.policy, IdentityReplicationPolicy) or not flow.add_source_alias
    }
    for (source, target), topics in kept.items():
        if topics and set(topics) & set(kept.get((target, source), ())):
            raise BadMirrorSettings(
                f"{source}->{target} and {target}->{source} copy the same topics under their own names, so records "
                "would go round for ever: give each flow its own topics, or use DefaultReplicationPolicy."
            )


def _check_flow_names(properties: Mapping[str, str], aliases: Sequence[str]) -> None:
    for name in properties:
        found = re.match(r"\s*(\S+?)\s*->\s*([^.\s]+)\.", name)
        for alias in found.groups() if found else ():
            if alias not in aliases:
                raise BadMirrorSettings(
                    f"'{name}' is about cluster '{alias}', which is not one of clusters = {', '.join(aliases)}."
                )


def _side(properties: Mapping[str, str], alias: str) -> Side:
    own = {
        name.removeprefix(f"{alias}."): value
        for name, value in properties.items()
        if name.startswith(f"{alias}.")
    }
    if not own.get("bootstrap.servers", "").strip():
        raise BadMirrorSettings(f"{alias}.bootstrap.servers is missing: where is cluster {alias}?")
    shared = {
        name: value for name, value in properties.items() if name.startswith(("security.", "ssl.", "sasl."))
    }
    for role in ("admin.", "consumer.", "producer."):
        own |= {name.removeprefix(role): value for name, value in own.items() if name.startswith(role)}
    try:
        return Side(alias, Settings.from_properties(shared | own, client_id="ottla-mirror"), shared | own)
    except ClientError as error:
        raise BadMirrorSettings(
            f"Cluster {alias} cannot be reached with these settings: {error.message}"
        ) from None


def _flow(properties: Mapping[str, str], source: Side, target: Side) -> FlowSettings:
    own = _Section(properties, f"{source}->{target}.")
    enabled = own.flag("enabled", False) if f"{source}->{target}.enabled" in properties else False
    heartbeats = own.interval("emit.heartbeats.enabled", "emit.heartbeats.interval.seconds", 1)
    checkpoints = own.interval("emit.checkpoints.enabled", "emit.checkpoints.interval.seconds", 60)
    return FlowSettings(
        source=source,
        target=target,
        enabled=enabled,
        policy=_policy(own, source.alias),
        topics=NameFilter(
            own.patterns("topics", ".*"), own.patterns("topics.exclude", _TOPICS_EXCLUDE, "topics.blacklist")
        ),
        groups=NameFilter(
            own.patterns("groups", ".*"), own.patterns("groups.exclude", _GROUPS_EXCLUDE, "groups.blacklist")
        ),
        configs=NameFilter(
            [".*"],
            own.patterns("config.properties.exclude", _CONFIGS_EXCLUDE, "config.properties.blacklist"),
        ),
        replication_factor=own.number("replication.factor", 2),
        refresh_topics=own.interval("refresh.topics.enabled", "refresh.topics.interval.seconds", 600),
        sync_topic_configs=own.interval(
            "sync.topic.configs.enabled", "sync.topic.configs.interval.seconds", 600
        ),
        sync_topic_acls=own.interval("sync.topic.acls.enabled", "sync.topic.acls.interval.seconds", 600),
        refresh_groups=own.interval("refresh.groups.enabled", "refresh.groups.interval.seconds", 600),
        emit_heartbeats=heartbeats,
        emit_checkpoints=checkpoints,
        sync_group_offsets=own.interval(
            "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds", 60, enabled=False
        ),
        heartbeats_replication_factor=own.number("heartbeats.topic.replication.factor", 3),
        checkpoints_replication_factor=own.number("checkpoints.topic.replication.factor", 3),
        offset_syncs_replication_factor=own.number("offset-syncs.topic.replication.factor", 3),
        offset_syncs_on_source=_location(own) == "source",
        emit_offset_syncs=own.flag("emit.offset-syncs.enabled", True),
        start_at_latest=_start(own, properties, source.alias) == "latest",
        skip_gaps=_choice(own, "ottla.gaps", "fail", ("fail", "skip")) == "skip",
        max_offsets_per_trigger=own.number("ottla.max.offsets.per.trigger", 1_000_000),
        add_source_alias=own.flag("add.source.alias.to.remote.topic", True),
        audit=_audit(own, f"{source}->{target}"),
    )


def _audit(own: _Section, name: str) -> Tier | None:
    try:
        return parse_tier({each: text for each in AUDIT_OPTIONS if (text := own.text(each, ""))}, name)
    except BadAuditOption as error:
        raise BadMirrorSettings(str(error)) from None


def legacy_flow(consumer: Mapping[str, str], producer: Mapping[str, str], topics: str) -> FlowSettings:
    """Return a flow that works like the legacy kafka-mirror-maker: topics keep their names, and only records are
    copied.
    """
    group = consumer.get("group.id", "")
    source = group if re.fullmatch(r"[\w-]+", group) else "source"  # positions are stored under this name
    properties = {
        "clusters": f"{source}, target",
        f"{source}->target.enabled": "true",
        "topics": topics,
        "replication.policy.class": "IdentityReplicationPolicy",
        "replication.factor": "-1",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": "30",
        "consumer.auto.offset.reset": consumer.get("auto.offset.reset", "latest"),
        **{f"{source}.{name}": value for name, value in consumer.items()},
        **{f"target.{name}": value for name, value in producer.items()},
    }
    return replace(parse_flows(properties, ["target"])[0], commit_group=group or None)


def _policy(own: _Section, source: str) -> ReplicationPolicy:
    name = own.text("replication.policy.class", "DefaultReplicationPolicy")
    if name not in _POLICIES:
        raise BadMirrorSettings(
            f"replication.policy.class must be DefaultReplicationPolicy or IdentityReplicationPolicy, not '{name}'."
        )
    separator = own.text("replication.policy.separator", ".")
    internal = separator if own.flag("replication.policy.internal.topic.separator.enabled", False) else None
    if _POLICIES[name]:
        return IdentityReplicationPolicy(source, separator, internal)
    return ReplicationPolicy(separator, internal)


def _location(own: _Section) -> str:
    return _choice(own, "offset-syncs.topic.location", "source", ("source", "target"))


def _start(own: _Section, properties: Mapping[str, str], source: str) -> str:
    """Return auto.offset.reset. Settings for the source's consumers override settings for all consumers."""
    name = "consumer.auto.offset.reset"
    found = own.text(f"source.{name}", "") or properties.get(f"{source}.{name}", "").strip()
    if not found:
        return _choice(own, name, "earliest", ("earliest", "latest"))
    return _checked(f"{source}.{name}", found, ("earliest", "latest"))


def _choice(own: _Section, name: str, default: str, choices: Sequence[str]) -> str:
    return _checked(name, own.text(name, default), choices)


def _checked(name: str, text: str, choices: Sequence[str]) -> str:
    if text.lower() not in choices:
        raise BadMirrorSettings(f"{name} must be {' or '.join(choices)}, not '{text}'.")
    return text.lower()


def _list(text: str) -> list[str]:
    return [each.strip() for each in re.split(r"[,;]", text) if each.strip()]
