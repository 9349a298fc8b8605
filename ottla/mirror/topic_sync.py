"""Sync of topics from the source: creation, partition counts, configs and ACLs."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin.acls import create_acls, describe_acls
from ottla.client.admin.configs import ConfigEntry, Resource, alter_configs, describe_many
from ottla.client.admin.topics import add_partitions, create_topic
from ottla.client.cluster import Cluster, Topic
from ottla.client.errors import ClientError
from ottla.mirror.internal_topics import wait_for
from ottla.mirror.policy import NameFilter
from ottla.mirror.settings import FlowSettings
from ottla.protocol.errors import ErrorCode
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

log = logging.getLogger("ottla.mirror")

_OWN = "DYNAMIC_TOPIC_CONFIG"


@dataclass(frozen=True)
class CopiedTopic:
    name: str
    remote: str
    partitions: int
    topic_id: str
    compacted: bool


class TopicSync:
    """Owner: the flow's thread."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._without_authorizer = False

    def topics(self) -> list[CopiedTopic]:
        """Create missing topics and partitions on the target. Return the topics to copy."""
        wanted = {
            name: topic
            for name, topic in self._source.retrying(self._source.topics).items()
            if self._flow.should_copy(name)
        }
        configs = self._configs(self._source, wanted)
        there = self._target.topics([self._flow.remote_topic(name) for name in wanted]) if wanted else {}
        copied = []
        for name, topic in sorted(wanted.items()):
            remote = self._flow.remote_topic(name)
            own = {entry.name: entry.value or "" for entry in configs[name]}
            policy = own.get("cleanup.policy", "")
            self._prepare(
                topic, remote, there.get(remote), _copied_configs(configs[name], self._flow.configs)
            )
            copied.append(
                CopiedTopic(
                    name,
                    remote,
                    len(topic.leaders),
                    str(uuid.UUID(bytes=bytes(topic.topic_id))),
                    "compact" in policy,
                )
            )
        return copied

    def _prepare(self, topic: Topic, remote: str, there: Topic | None, configs: Mapping[str, str]) -> None:
        count = len(topic.leaders)
        if there is None:
            wanted = self._flow.replication_factor
            replicas = wanted if wanted < 1 else min(wanted, len(self._target.nodes()))
            if replicas != wanted:
                log.warning(
                    "Topic %s gets %d replicas and not replication.factor = %d: cluster %s has no more brokers.",
                    remote, replicas, wanted, self._flow.target,
                )  # fmt: skip
            try:
                create_topic(
                    self._target,
                    remote,
                    partitions=count,
                    replication_factor=None if replicas < 1 else replicas,
                    configs=configs,
                )
            except ClientError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            wait_for(self._target, remote)
        elif len(there.leaders) < count:
            add_partitions(self._target, remote, count)
            wait_for(self._target, remote)

    def sync_configs(self, topics: list[CopiedTopic]) -> None:
        """Copy changed configs. Configs reset to their default on the source are reset on the target."""
        if not topics:
            return
        source = self._configs(self._source, [each.name for each in topics])
        target = self._configs(self._target, [each.remote for each in topics])
        for topic in topics:
            wanted = _copied_configs(source[topic.name], self._flow.configs)
            has = _copied_configs(target[topic.remote], self._flow.configs)
            changed = {name: value for name, value in wanted.items() if has.get(name) != value}
            reset = [name for name in has if name not in wanted]
            if changed or reset:
                alter_configs(self._target, Resource("topic", topic.remote), set_=changed, delete=reset)

    def _configs(
        self, cluster: Cluster, names: Mapping[str, object] | list[str]
    ) -> dict[str, list[ConfigEntry]]:
        if not names:
            return {}
        resources = [Resource("topic", name) for name in names]
        found = describe_many(cluster, resources, synonyms=False)
        return {resource.name: entries for resource, entries in found.items()}

    def sync_acls(self, topics: list[CopiedTopic]) -> None:
        """Grant read access on the target as on the source. Only the mirror gets write access there."""
        if self._without_authorizer:
            return
        try:
            found = describe_acls(self._source, AclFilter(resource_type=ResourceType.TOPIC))
            remotes = {each.name: each.remote for each in topics}
            wanted = [acl for each in found if (acl := _copied_acl(each, remotes, self._flow)) is not None]
            there = set(describe_acls(self._target, AclFilter(resource_type=ResourceType.TOPIC)))
            new = [acl for acl in wanted if acl not in there]
            if new:
                create_acls(self._target, new)
        except ClientError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
            self._without_authorizer = True
            log.info(
                "No ACLs are copied from %s to %s: one of them has no authorizer.",
                self._flow.source,
                self._flow.target,
            )


def _copied_configs(entries: list[ConfigEntry], included: NameFilter) -> dict[str, str]:
    return {
        entry.name: entry.value
        for entry in entries
        if entry.source == _OWN and entry.value is not None and not entry.read_only and included(entry.name)
    }


def _copied_acl(acl: Acl, remotes: Mapping[str, str], flow: FlowSettings) -> Acl | None:
    pattern, entry = acl
    if pattern.pattern_type == PatternType.LITERAL:
        name = remotes.get(pattern.name)
    elif pattern.pattern_type == PatternType.PREFIXED and any(
        each.startswith(pattern.name) for each in remotes
    ):
        name = flow.remote_topic(pattern.name)
    else:
        name = None
    if name is None:
        return None
    if entry.permission == Permission.ALLOW:
        if entry.operation == Operation.WRITE:
            return None
        if entry.operation == Operation.ALL:
            entry = entry._replace(operation=Operation.READ)
    return Acl(pattern._replace(name=name), entry)
