"""Confirm that nobody needs the remote segments of a partition, before they are deleted."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.log.remote.segment_metadata import TopicIdPartition
from ottla.metadata import nodes
from ottla.metadata.stores.store import NodeStore


def gave_up_remote_records(configs: Mapping[str, str]) -> bool:
    """Return True if tiered storage of a topic was disabled together with its data.

    Missing settings are no reason to delete anything: they may not have arrived yet.
    """

    def is_set(name: str) -> bool:
        return configs.get(name, "false").strip().lower() == "true"

    return is_set("remote.log.delete.on.disable") and not is_set("remote.storage.enable")


async def is_orphaned(store: NodeStore, name: TopicIdPartition) -> bool:
    """Ask the metadata store, because this broker's image may be outdated. Raises StoreError."""
    await store.sync()
    topic, config = await store.get_many([nodes.topic_path(name.topic), nodes.topic_config_path(name.topic)])
    if topic is None or nodes.decode_topic(name.topic, topic.data).topic_id != name.topic_id:
        return True
    return config is not None and gave_up_remote_records(nodes.decode_config(config.data))
