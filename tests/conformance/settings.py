"""What the broker is set to, and settings of single groups."""

from __future__ import annotations

from .client import AgentClient

# What the clients cannot ask for and the cases have to wait for: Kafka's defaults are 45 and 15 seconds.
QUICK = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.share.min.record.lock.duration.ms": "1000",
}


def broker_config(observer: AgentClient, name: str) -> int:
    """A number that the broker under test goes by, whichever broker it is."""
    broker = observer.call("describe_cluster")["brokers"][0][0]
    return int(observer.call("describe_configs", kind="broker", name=str(broker))[name]["value"])


def configure_group(client: AgentClient, group: str, **configs: str) -> None:
    changes = [["SET", name.replace("_", "."), value] for name, value in configs.items()]
    client.call("incremental_alter_configs", kind="group", name=group, changes=changes)
