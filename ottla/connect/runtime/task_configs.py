"""Requests the task configs from a connector."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.api import Connector
from ottla.connect.config.config_def import ConfigDef, ConfigType, at_least
from ottla.connect.errors import ConnectError

_TASKS = (
    ConfigDef()
    .define("tasks.max", ConfigType.INT, 1, validator=at_least(1))
    .define("tasks.max.enforce", ConfigType.BOOLEAN, True)
)


def ask_for_task_configs(connector: Connector, name: str, config: Mapping[str, str]) -> list[dict[str, str]]:
    settings = _TASKS.parse(config)
    most = settings["tasks.max"]
    configs = connector.task_configs(most)
    if len(configs) > most and settings["tasks.max.enforce"]:
        raise ConnectError(
            f"The connector {name} has generated {len(configs)} tasks, which is greater than {most}, the maximum "
            "number of tasks it is configured to create. This behaviour should be considered a bug and is "
            "disallowed. If necessary, it can be permitted by reconfiguring the connector with "
            "'tasks.max.enforce' set to false; however, this option will be removed in a future release of Kafka "
            "Connect."
        )
    return [dict(each) for each in configs]
