"""Topics as the cases make them and wait for them."""

from __future__ import annotations

from collections.abc import Callable

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
