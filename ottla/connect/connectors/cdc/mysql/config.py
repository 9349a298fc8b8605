"""Settings of the MariaDB and MySQL connectors, with Debezium's names and defaults."""

from __future__ import annotations

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, at_least, one_of
from ottla.connect.connectors.cdc.config import common_settings, snapshot_mode, time_precision

SNAPSHOT_MODES = ("initial", "initial_only", "always", "never", "no_data", "when_needed")


def _definition() -> ConfigDef:
    definition = snapshot_mode(
        time_precision(
            common_settings(port=3306, schemas="database", database_required=False),
            "adaptive_time_microseconds",
        ),
        *SNAPSHOT_MODES,
    )
    for name, type_, default, text, check in (
        ("database.server.id", ConfigType.LONG, None,
        "Unique id of this reader among all servers and readers.",
            None),
        ("database.ssl.mode", ConfigType.STRING, "disable", "TLS: disable, required, verify_ca or verify_identity.",
            None),
        ("bigint.unsigned.handling.mode", ConfigType.STRING, "long", "long or precise.", one_of("long", "precise")),
        ("snapshot.locking.mode", ConfigType.STRING, "minimal",
        "No effect: MariaDB needs no lock, MySQL a short one.",
            None),
        ("include.schema.changes", ConfigType.BOOLEAN, True,
        "No effect: schemas show changes of tables.", None),
        ("connect.timeout.ms", ConfigType.INT, 30_000,
        "No effect; accepted for compatibility with Debezium.", at_least(0)),
    ):  # fmt: skip
        definition.define(name, type_, default, Importance.MEDIUM, text, validator=check)
    return definition


MYSQL_CONFIG = _definition()
