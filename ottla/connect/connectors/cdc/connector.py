"""Validation of settings and of operator-written offsets, shared by the CDC connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla import __version__
from ottla.connect.api import Config, SourceConnector, SourceOffset, SourcePartition
from ottla.connect.errors import ConnectError


class CdcConnector(SourceConnector):
    version: ClassVar[str] = __version__
    #: The database's word for the qualifier of a table name: schema or database.
    schemas: ClassVar[str]
    publishes_transactions: ClassVar[bool] = False
    #: Fields required in an offset.
    offset_needs: ClassVar[str]

    @staticmethod
    def is_offset(offset: SourceOffset) -> bool:
        raise NotImplementedError

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        settings: Mapping[str, Any] = self.config_def.parse(config)
        wrong: dict[str, list[str]] = {}
        for kind in ("table", self.schemas, "column"):
            if settings[f"{kind}.include.list"] and settings[f"{kind}.exclude.list"]:
                wrong[f"{kind}.include.list"] = [
                    f'"{kind}.include.list" and "{kind}.exclude.list" cannot be set at the same time.'
                ]
        if settings["provide.transaction.metadata"] and not self.publishes_transactions:
            wrong["provide.transaction.metadata"] = [
                "This connector does not publish transaction metadata: set it to false."
            ]
        if not wrong:
            try:
                self.try_connection(settings)
            except ConnectError as error:
                wrong["database.hostname"] = [error.message]
        return wrong

    def try_connection(self, settings: Mapping[str, Any]) -> None:
        """Raises ConnectError if the database refuses the connection."""
        raise NotImplementedError

    def check_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        for partition, offset in offsets:
            if set(partition) != {"server"}:
                raise ConnectError(
                    f'Not a source partition of this connector: {dict(partition)}. Write {{"server":"topic.prefix"}}.'
                )
            if offset is not None and not self.is_offset(offset):
                raise ConnectError(f"An offset of this connector needs {self.offset_needs}; null resets it.")
