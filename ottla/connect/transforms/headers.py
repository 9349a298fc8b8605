"""InsertHeader and DropHeaders."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.config.validators import filled_list, not_null
from ottla.connect.data.record import ConnectRecord, Header
from ottla.connect.data.values import parse_string
from ottla.connect.transforms.base import C, Transform


class InsertHeader(Transform):
    config_def = (
        ConfigDef()
        .define(
            "header",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The name of the header.",
            validator=not_null,
        )
        .define(
            "value.literal",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The value of the header in each record; its type is guessed as that of any header's text.",
            validator=not_null,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        schema, value = parse_string(self.settings["value.literal"])
        self._header = Header(self.settings["header"], value, schema)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return record.replaced(headers=[*record.headers, self._header])


class DropHeaders(Transform):
    config_def = ConfigDef().define(
        "headers",
        ConfigType.LIST,
        importance=Importance.HIGH,
        documentation="The names of the headers to remove.",
        validator=filled_list,
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._dropped = frozenset(self.settings["headers"])

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return record.replaced(headers=[each for each in record.headers if each.key not in self._dropped])

    def apply_columns(self, columns: C) -> C:
        return columns  # columns have no headers
