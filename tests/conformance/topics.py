"""Topics as the cases make them and wait for them."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.connection import Connection
from ottla.client.errors import ClientError as ConnectionFailed
from ottla.client.settings import Settings
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from .client import AgentClient
from .records import ClientError

# make_topic(partitions=1, retention_ms="1000") -> its name
MakeTopic = Callable[..., str]


def is_served(observer: AgentClient, name: str, partitions: int) -> bool:
    try:
        found = observer.call("describe_topic", name=name)["partitions"]
    except ClientError:
        return False
    return len(found) == partitions and all(partition["leader"] >= 0 for partition in found)


def is_known_everywhere(bootstrap: str, name: str) -> bool:
    """Whether each of several brokers knows of it: clients ask whichever they like."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            with Connection(
                Settings(client_id="conformance", request_timeout=10.0), host, int(port)
            ) as asked:
                [topic] = asked.request(request, MetadataResponse).topics
        except ConnectionFailed:
            return False
        if topic.error_code or any(partition.error_code for partition in topic.partitions):
            return False
    return True
