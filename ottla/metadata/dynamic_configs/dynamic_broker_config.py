"""Dynamic broker configs (Kafka's DynamicBrokerConfig): settings of one broker or of all that change at run time.

They are stored under /config/brokers, for one broker by its id and for all under <default>. A broker's own settings
precede those of all brokers, and both precede server.properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ottla.metadata.configs.broker_config import BrokerConfig, broken_requirements
from ottla.metadata.configs.broker_config_table import broker_config_def
from ottla.metadata.configs.config_defs import InvalidValue, UpdateMode, parse_value, wrong_rate
from ottla.metadata.dynamic_configs.dynamic_passwords import DynamicPasswords
from ottla.protocol.errors import ErrorCode, KafkaError

_NOTHING: Mapping[str, str] = MappingProxyType({})


class DynamicBrokerConfig:
    """The dynamic layers of this broker's config. Owner: the event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.passwords = DynamicPasswords(config)

    def apply(self, stored: Mapping[int | None, Mapping[str, str]]) -> None:
        """Apply the stored settings by broker id; None means all brokers."""
        self._config.set_dynamic(
            broker=self.passwords.reveal(stored.get(self._config.broker_id, {})),
            cluster_default=stored.get(None, {}),
        )

    def validate(
        self, changed: Mapping[str, str], before: Mapping[str, str] = _NOTHING, *, cluster_default: bool
    ) -> None:
        """Reject changes that Kafka rejects for one broker or for all. Raises KafkaError(INVALID_REQUEST).

        `changed` is the layer after the change, `before` the current one. Unchanged values are not checked again, since
        they may come from Kafka 3.9. Unknown names pass, as Kafka allows for plugins.
        """
        known = {
            name: definition
            for name in changed
            if changed[name] != before.get(name) and (definition := broker_config_def(name)) is not None
        }
        if fixed := [name for name, each in known.items() if each.update_mode is UpdateMode.READ_ONLY]:
            raise _refused(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        if bare := [name for name in known if name.startswith("ssl.")]:
            raise _refused(
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                f"[{', '.join(bare)}]"
            )
        if (wrong := wrong_rate(changed)) is not None:
            raise _refused(wrong)
        values = dict(self._config.values)
        try:
            values |= {name: parse_value(definition, changed[name]) for name, definition in known.items()}
        except InvalidValue as error:
            raise _refused(str(error)) from None
        if cluster_default:
            per_broker = [name for name, each in known.items() if each.update_mode is UpdateMode.PER_BROKER]
            if per_broker:
                raise _refused(
                    "Cannot update these configs at default cluster level, broker id must be specified: "
                    f"[{', '.join(per_broker)}]"
                )
        for name, reason in broken_requirements(values):
            raise _refused(f"requirement failed: {name} {reason}")


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
