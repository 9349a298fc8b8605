"""Creating topics for the cases, and waiting for them."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.connection import Connection
from ottla.client.errors import ClientError as ConnectionFailed
from ottla.client.settings import Settings
from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse

from .client import AgentClient
from .records import ClientError

# make_topic(partitions=1, retention_ms="1000") -> topic name
MakeTopic = Callable[..., str]


def is_served(observer: AgentClient, name: str, partitions: int) -> bool:
    """Return True if every broker knows the topic's leaders, because clients ask any broker."""
    try:
        found = observer.call("describe_topic", name=name)["partitions"]
    except ClientError:
        return False
    addresses = observer.bootstrap.split(",")
    return (
        len(found) == partitions
        and all(partition["leader"] >= 0 for partition in found)
        and (len(addresses) == 1 or all(_is_known(address, name, partitions) for address in addresses))
    )


def _is_known(address: str, name: str, partitions: int) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    host, _, port = address.rpartition(":")
    try:
        with Connection(Settings(client_id="conformance", request_timeout=10.0), host, int(port)) as asked:
            [topic] = asked.request(request, MetadataResponse).topics
    except ConnectionFailed:
        return False
    return len(topic.partitions) == partitions and all(each.leader_id >= 0 for each in topic.partitions)
