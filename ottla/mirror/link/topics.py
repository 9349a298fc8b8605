"""Topics of a link: creates them on the target as mirrors with the same topic ids, and finds them again."""

from __future__ import annotations

import base64
import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.client.admin.configs import Resource, alter_configs, describe_many
from ottla.client.admin.topics import add_partitions, create_topic
from ottla.client.cluster import Cluster, Topic, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import LATEST, READ_COMMITTED, list_offsets
from ottla.mirror.errors import Recreated
from ottla.mirror.internal_topics import wait_for
from ottla.mirror.link.append import check_target
from ottla.mirror.link.settings import LinkSettings
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import MIRROR_LINK, MIRROR_PROMOTED, MIRROR_TOPIC_ID

log = logging.getLogger("ottla.mirror")

_OWN = "DYNAMIC_TOPIC_CONFIG"
_OURS = "ottla.mirror."
_REFUSED = (
    ErrorCode.INVALID_CONFIG,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


class PartitionLag(NamedTuple):
    """Lag of one partition. Unknown end offsets are -1."""

    partition: TopicPartition
    source_end: int
    target_end: int

    @property
    def records(self) -> int | None:
        return None if self.source_end < 0 else max(0, self.source_end - self.target_end)


class LinkTopics:
    """Owner: one thread, with its own connections."""

    def __init__(self, link: LinkSettings, source: Cluster, target: Cluster) -> None:
        self._link = link
        self._source = source
        self._target = target

    def prepare(self) -> dict[str, int]:
        """Create missing mirrors on the target. Return the topics to copy and their partition counts."""
        check_target(self._target.any_connection())
        wanted = {
            name: topic
            for name, topic in self._source.retrying(self._source.topics).items()
            if self._link.should_copy(name) and not topic.is_internal
        }
        source, target = own_configs(self._source, wanted), self.target_topics(wanted)
        copied = {}
        for name, topic in sorted(wanted.items()):
            if source[name].get(MIRROR_LINK):
                continue  # it belongs to another link, perhaps to the reverse of this one
            if name not in target:
                self.create(topic, source[name])
            elif not self._is_ours(topic, *target[name]):
                continue
            copied[name] = len(topic.leaders)
        return copied

    def target_topics(self, names: Collection[str]) -> dict[str, tuple[Topic, dict[str, str]]]:
        there = self._target.topics(list(names)) if names else {}
        configs = own_configs(self._target, there)
        return {name: (topic, configs[name]) for name, topic in there.items()}

    def _is_ours(self, topic: Topic, there: Topic, configs: Mapping[str, str]) -> bool:
        link, name = self._link, topic.name
        if not configs.get(MIRROR_LINK) and configs.get(MIRROR_PROMOTED):
            return False  # it was a mirror until its promotion
        if configs.get(MIRROR_LINK) != link.name:
            raise Recreated(
                f"Topic '{name}' of cluster {link.flow.target} is not a mirror of link '{link.name}': delete it there, "
                "or exclude it with topics.exclude."
            )
        if configs.get(MIRROR_TOPIC_ID) and bytes(there.topic_id) != bytes(topic.topic_id):
            raise Recreated(
                f"Topic '{name}' of cluster {link.flow.source} was deleted and created again. To copy the new one, "
                f"delete the topic on cluster {link.flow.target}."
            )
        if len(there.leaders) < len(topic.leaders):
            add_partitions(self._target, name, len(topic.leaders))
            wait_for(self._target, name)
        return True

    def sync_configs(self, names: Collection[str]) -> None:
        """Copy changed configs. Configs reset to their default on the source are reset on the mirror."""
        source, target = own_configs(self._source, names), own_configs(self._target, names)
        for name in names:
            wanted, has = self._copied(source[name]), self._copied(target[name])
            changed = {key: value for key, value in wanted.items() if has.get(key) != value}
            reset = [key for key in has if key not in wanted]
            if not changed and not reset:
                continue
            try:
                alter_configs(self._target, Resource("topic", name), set_=changed, delete=reset)
            except ClientError as error:
                if error.code not in _REFUSED:
                    raise
                # Keep copying: these configs matter only after the promotion.
                log.warning("Settings of topic %s cannot be copied: %s", name, error.message)

    def _copied(self, configs: Mapping[str, str]) -> dict[str, str]:
        included = self._link.flow.configs
        return {
            name: value for name, value in configs.items() if included(name) and not name.startswith(_OURS)
        }

    def create(self, topic: Topic, configs: Mapping[str, str]) -> None:
        wanted = self._link.flow.replication_factor
        replicas = wanted if wanted < 1 else min(wanted, len(self._target.nodes()))
        own = self._copied(configs)
        own[MIRROR_LINK] = self._link.name
        if bytes(topic.topic_id) != bytes(ZERO_UUID):
            own[MIRROR_TOPIC_ID] = base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
        create_topic(
            self._target,
            topic.name,
            partitions=len(topic.leaders),
            replication_factor=None if replicas < 1 else replicas,
            configs=own,
        )
        wait_for(self._target, topic.name)

    def mirrors(self) -> dict[str, Topic]:
        found = self.target_topics(list(self._target.retrying(self._target.topics)))
        return {
            name: topic
            for name, (topic, configs) in found.items()
            if configs.get(MIRROR_LINK) == self._link.name
        }


def own_configs(cluster: Cluster, names: Collection[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    found = describe_many(cluster, [Resource("topic", name) for name in names], synonyms=False)
    return {
        resource.name: {
            each.name: each.value for each in entries if each.source == _OWN and each.value is not None
        }
        for resource, entries in found.items()
    }


def lags(
    source: Cluster | None, target: Cluster, topics: Collection[Topic], isolation_level: int = READ_COMMITTED
) -> list[PartitionLag]:
    """Return the lag of each partition. Without a source the lag is unknown."""
    partitions = [each for topic in topics for each in topic.partitions]
    if not partitions:
        return []
    wanted = dict.fromkeys(partitions, LATEST)
    there = list_offsets(target, wanted)
    here = {} if source is None else list_offsets(source, wanted, isolation_level)
    return [
        PartitionLag(each, here[each].offset if each in here else -1, there[each].offset)
        for each in partitions
    ]


def reachable(cluster: Cluster) -> Cluster | None:
    """Return the cluster, or None if no broker responds."""
    try:
        cluster.any_connection()
    except ClientError:
        return None
    return cluster
