"""Broker settings of the suite, and group settings."""

from __future__ import annotations

from .client import AgentClient

# Settings that bound the waiting time of cases. With Kafka's defaults it is at least 6 seconds, and 45 and 15 where
# clients have no say.
QUICK = {
    "group.min.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.share.min.record.lock.duration.ms": "1000",
}


def broker_config(observer: AgentClient, name: str) -> int:
    """Return a numeric setting of the broker under test, whichever broker it is."""
    broker = observer.call("describe_cluster")["brokers"][0][0]
    return int(observer.call("describe_configs", kind="broker", name=str(broker))[name]["value"])


def configure_group(client: AgentClient, group: str, **configs: str) -> None:
    changes = [["SET", name.replace("_", "."), value] for name, value in configs.items()]
    client.call("incremental_alter_configs", kind="group", name=group, changes=changes)
